"""The request that a vendor receives, and how its reply is classified and read."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lookup.answers import Answer, Failed, Found, NotFound
from lookup.vendors import preset
from lookup.vendors.json_api import Classification, JsonApi
from lookup.vendors.preset import MissingEnvironment
from lookup.vendors.transport import Reply
from tests.lookup.vendors.searches import answer_of
from tests.mock_vendors import KEYS, PRESETS, Vendors

NUMBER = "12025550123"
Make = Callable[..., JsonApi]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """A vendor by a changed mock preset: `make(("old", "new"), MOCK_A_KEY="…")`."""

    def made(*changes: tuple[str, str], name: str = "mock_a", **environment: str) -> JsonApi:
        text = (PRESETS / f"{name}.toml").read_text(encoding="utf-8")
        for old, new in changes:
            assert old in text
            text = text.replace(old, new, 1)
        file = tmp_path / f"{name}.toml"
        file.write_text(text, encoding="utf-8")
        return JsonApi(preset.load(file), {**KEYS, **environment})

    return made


def read(vendor: JsonApi, document: Any, status: int = 200, **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return vendor.classify(Reply(status, named, json.dumps(document).encode())).answer


# --- The request ----------------------------------------------------------------------------------------------------


def test_path_and_query_are_percent_encoded_and_names_repeat(make: Make) -> None:
    vendor = make(
        ("callers/{e164}", "callers/{e164}/x"),
        ("{ fields =", '{ "country[]" = "{region}", "$limit" = "25", n = "{e164}", s = "a b&c", fields ='),
    )
    assert vendor.request(NUMBER).url == (
        "https://vendor.example.com/v1/callers/%2B12025550123/x"
        "?country%5B%5D=US&%24limit=25&n=%2B12025550123&s=a%20b%26c&fields=name&fields=place"
    )


ALWAYS = {"User-Agent": "callerid/1.0", "Accept": "application/json", "Accept-Encoding": "gzip"}
AUTH = 'headers = { X-Key = "MOCK_A_KEY" }'


@pytest.mark.parametrize(
    ("auth", "headers", "query"),
    [
        (AUTH, {"X-Key": "k1"}, ""),
        ('headers = { X-Sid = "MOCK_A_SID", X-Key = "MOCK_A_KEY" }', {"X-Sid": "s1", "X-Key": "k1"}, ""),
        ('bearer = "MOCK_A_KEY"', {"Authorization": "Bearer k1"}, ""),
        ('query = { api_key = "MOCK_A_KEY" }', {}, "&api_key=k1"),
        ('query = { id = "MOCK_A_SID", api_key = "MOCK_A_KEY" }', {}, "&id=s1&api_key=k1"),
        ('basic = ["MOCK_A_SID", "MOCK_A_KEY"]', {"Authorization": "Basic czE6azE="}, ""),
        ("", {}, ""),
    ],
)
def test_each_authentication_method(make: Make, auth: str, headers: dict[str, str], query: str) -> None:
    request = make((AUTH, auth), MOCK_A_KEY="k1", MOCK_A_SID="s1").request(NUMBER)
    assert request.headers == {**ALWAYS, **headers}
    assert request.url.endswith("?fields=name&fields=place" + query)


def test_key_in_the_path_is_encoded_and_the_body_is_json(make: Make) -> None:
    request = make(name="mock_b", MOCK_B_KEY="k/1?").request(NUMBER)
    assert (request.method, request.url) == ("POST", "https://vendor.example.com/k%2F1%3F/report")
    assert request.headers["Content-Type"] == "application/json"
    assert json.loads(request.body or b"") == {"phone": "+12025550123", "options": {"spam": True}}


def test_form_headers_and_key_of_the_preset_are_sent(make: Make) -> None:
    vendor = make(
        ('method = "POST"', 'method = "POST"\nheaders = { User-Agent = "me", X-N = "{e164_digits}" }'),
        ('json = { phone = "{e164}", options = { spam = true } }', 'form = { phone = "{e164}" }'),
        ("{key}/report", "report"),
        ('path = "MOCK_B_KEY"', 'form = { api_key = "MOCK_B_KEY" }'),
        name="mock_b",
        MOCK_B_KEY="{k1}",
    )
    request = vendor.request(NUMBER)
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    assert request.headers == {**ALWAYS, **form, "User-Agent": "me", "X-N": NUMBER}
    assert request.body == b"phone=%2B12025550123&api_key=%7Bk1%7D"


def test_request_on_the_wire(vendors: Vendors, settings: Any) -> None:
    environment = {**KEYS, "MOCK_B_BASE_URL": vendors.b.url}
    vendor = JsonApi(preset.load(PRESETS / "mock_b.toml"), environment)
    assert answer_of(vendor, NUMBER) == Found(name="Example Sweepstakes", spam=True)
    assert vendors.b.heads[0].startswith(b"POST /b-key-of-ours-92cd/report HTTP/1.1\r\n")
    assert b"Content-Type: application/json" in vendors.b.heads[0]
    assert json.loads(vendors.b.bodies[0]) == {"phone": "+12025550123", "options": {"spam": True}}


# --- The environment ------------------------------------------------------------------------------------------------


def test_missing_keys_are_named(make: Make) -> None:
    with pytest.raises(MissingEnvironment) as raised:
        make((AUTH, 'basic = ["MOCK_A_SID", "MOCK_A_TOKEN"]'), MOCK_A_TOKEN=" ")
    assert "mock_a needs MOCK_A_SID and MOCK_A_TOKEN" in str(raised.value)
    assert raised.value.hint.startswith("Set MOCK_A_SID and MOCK_A_TOKEN")


def test_optional_authentication_is_sent_when_it_is_set(make: Make) -> None:
    optional = (AUTH, 'optional = true\nbearer = "MOCK_A_TOKEN"')
    assert "Authorization" not in make(optional).request(NUMBER).headers
    assert make(optional, MOCK_A_TOKEN="t").request(NUMBER).headers["Authorization"] == "Bearer t"


@pytest.mark.parametrize("value", ["a\nb", "clé", "a\x00", "x\r\nX-Evil: 1"])
def test_invalid_key_is_rejected_and_not_repeated(make: Make, value: str) -> None:
    with pytest.raises(MissingEnvironment, match="MOCK_A_KEY has a character") as raised:
        make(MOCK_A_KEY=value)
    assert value not in str(raised.value)


def test_preset_cannot_use_the_services_own_secrets(tmp_path: Path) -> None:
    text = (PRESETS / "mock_a.toml").read_text(encoding="utf-8").replace("MOCK_A_KEY", "SECRET_KEY")
    (tmp_path / "secret.toml").write_text(text, encoding="utf-8")
    with pytest.raises(MissingEnvironment, match="SECRET_KEY is a setting of the service itself"):
        JsonApi(preset.load(tmp_path / "secret.toml"), {"SECRET_KEY": "x" * 50})


def test_budget_of_the_preset_applies_to_the_connector(make: Make, vendors: Vendors) -> None:
    vendor = make(
        ("[fields]", "[budget]\ntimeout_s = 0.7\nconcurrency = 3\ncache_hit_s = 5\nmax_body_bytes = 10\n[fields]"),
        MOCK_A_BASE_URL=vendors.a.url,
    )
    assert (vendor.max_wait_s, vendor.concurrency, vendor.hit_ttl_s, vendor.miss_ttl_s) == (0.7, 3, 5, 3600)
    answer = answer_of(vendor, NUMBER)
    assert isinstance(answer, Failed)
    assert answer.hint.endswith("its answer is larger than 10 bytes")


def test_private_network_must_be_allowed_by_the_preset(make: Make) -> None:
    assert make().client.address_policy == "public"
    private = make(('source = "these tests"', 'source = "these tests"\nprivate_network = true'))
    assert private.client.address_policy == "private"


@pytest.mark.parametrize("url", ["http://127.0.0.1:9000", "https://gateway.example.com/acme/v~1"])
def test_base_url_replaces_scheme_and_host_only(make: Make, url: str) -> None:
    vendor = make(MOCK_A_BASE_URL=f"{url}/")
    assert vendor.request(NUMBER).url.startswith(f"{url}/v1/callers/%2B12025550123?")
    assert vendor.version != make().version


@pytest.mark.parametrize(
    "url",
    [
        "http://vendor.example.com",
        "https://me:pw@vendor.example.com",
        "https://vendor.example.com/a-key-of-ours?x=1",
        "https://vendor.example.com//a",
        "https://vendor.example.com/a/../b",
        "https://vendor.example.com/{key}",
        "https://vendor.example.com/a b",
        "https://vendor.example.com?x=1",
        "https://vendor.example.com#x",
        "ftp://vendor.example.com",
        "vendor.example.com",
        "https://",
        "https://vendor.example.com:99999",
        "https://[",
    ],
)
def test_invalid_base_url_is_rejected(make: Make, url: str) -> None:
    with pytest.raises(
        MissingEnvironment, match="MOCK_A_BASE_URL must be a scheme, a host and at most a path"
    ) as raised:
        make(MOCK_A_BASE_URL=url)
    assert "a-key-of-ours" not in f"{raised.value} {raised.value.hint}"


# --- The reply ------------------------------------------------------------------------------------------------------


def test_rules_apply_in_order_and_then_the_status(make: Make) -> None:
    vendor = make(
        ('status = [404]\nstatus_alone = "these tests"', "status = [404, 429]\nwhen = \"code == 'unlisted'\"")
    )
    assert read(vendor, {"known": False, "name": "x"}) == NotFound()
    assert read(vendor, {"code": "unlisted"}, 404) == NotFound()
    assert read(vendor, {"code": "unlisted"}, 429) == NotFound()
    assert read(vendor, {"code": "other"}, 404) == Failed(
        "bad_response", "404: no rule of the preset applies to its answer"
    )
    assert read(vendor, {"code": "other"}, 429) == Failed("rate_limited", "429: too many requests")
    assert read(vendor, {}) == Failed("bad_response", "200: no rule of the preset applies to its answer")


def test_unreadable_error_body_is_classified_by_status(make: Make) -> None:
    vendor = make(('status = [200]\nwhen = "known == `false`"', "when = \"contains(message, 'x')\""))
    outcomes = {status: vendor.classify(Reply(status, {}, b"{}")).outcome for status in (200, 401, 429, 500)}
    assert outcomes == {200: "bad_response", 401: "auth", 429: "rate_limited", 500: "unavailable"}


@pytest.mark.parametrize(("status", "number_specific"), [(400, True), (422, True), (404, False), (500, False)])
def test_status_400_and_422_are_number_specific(make: Make, status: int, number_specific: bool) -> None:
    vendor = make(("status = [404]", "status = [410]"))
    answer = read(vendor, {}, status)
    assert isinstance(answer, Failed)
    assert answer.number_specific == number_specific


@pytest.mark.parametrize("value", ["x", 0, {}, []])
def test_when_that_is_not_true_false_or_null_is_a_failure(make: Make, value: object) -> None:
    vendor = make(("known == `false`", "unlisted"))
    hint = "200: the preset's `when`: `unlisted` is neither true, false nor null"
    assert read(vendor, {"unlisted": value, "name": "y"}) == Failed("bad_response", hint)
    answers = [read(vendor, {"unlisted": value, "name": "y"}) for value in (True, False, None)]
    assert answers == [NotFound(), Found(name="y"), Found(name="y")]


def test_rule_can_mark_a_failure_as_number_specific(make: Make) -> None:
    changes = ('is = "not_found"', 'is = "unavailable"\nnumber_specific = true')
    answer = read(make(changes), {"known": False})
    assert isinstance(answer, Failed)
    assert answer.number_specific


def test_unreadable_fields_are_named_beside_known_ones(make: Make) -> None:
    answer = read(make(), {"name": {"first": "x"}, "city": "Springfield"})
    assert isinstance(answer, Found)
    assert answer.known() == {"location": "Springfield"}
    assert answer.unreadable == {"name"}


def test_status_alone_needs_no_readable_body(make: Make) -> None:
    assert make().classify(Reply(404, {}, b"not here")) == Classification(NotFound(), rule=3)
    vendor = make(("when = \"contains(keys(@), 'name')\"", 'status_alone = "these tests"'))
    assert vendor.classify(Reply(200, {}, b"<html>")).outcome == "bad_response"  # found needs one


@pytest.mark.parametrize(
    ("body", "content_type", "hint"),
    [
        (b"", "application/json", "200: its answer is empty (Content-Type application/json)"),
        (b" \r\n", "", "200: its answer is empty (no Content-Type)"),
        (b"<html>Private", "Text/HTML; charset=utf-8", "200: its answer is HTML, not JSON (Content-Type text/html)"),
        (b"<?xml version='1.0'?><Private/>", "text/xml", "200: its answer is XML, not JSON (Content-Type text/xml)"),
        (
            b'{"name": "Priv',
            "application/json",
            "200: its answer is truncated or invalid JSON (Content-Type application/json)",
        ),
        (b'{"name": "Private"} Private', "", "200: its answer is truncated or invalid JSON (no Content-Type)"),
        (b"Private", "text/plain", "200: its answer is not JSON (Content-Type text/plain)"),
        (b"\xff\xfe", "12025550123", "200: its answer is not JSON (Content-Type unusual)"),
        (b"Private", "text/12025550123", "200: its answer is not JSON (Content-Type unusual)"),
    ],
)
def test_answer_that_is_not_json_says_so(make: Make, body: bytes, content_type: str, hint: str) -> None:
    headers = {"Content-Type": content_type} if content_type else {}
    assert make().classify(Reply(200, headers, body)).answer == Failed("bad_response", hint)


def test_page_with_an_error_status_says_what_it_is(make: Make) -> None:
    html = {"Content-Type": "text/html"}
    assert make().classify(Reply(503, html, b"<html>")).answer == Failed(
        "unavailable", "503: it is unavailable; its answer is HTML, not JSON (Content-Type text/html)"
    )
    assert make().classify(Reply(503, html, b"")).answer == Failed("unavailable", "503: it is unavailable")
    vendor = make(
        ('status_alone = "these tests"\nis = "not_found"', 'text = "Down."\nis = "unavailable"\nfix = "Wait."')
    )
    assert vendor.classify(Reply(404, {}, b"Down.")).answer == Failed("unavailable", "404: Wait.")


def test_text_is_the_whole_body(make: Make) -> None:
    vendor = make(('status_alone = "these tests"', 'text = "Unknown number."'))
    for body in (b"Unknown number.", b"\r\n Unknown number.\n"):
        assert vendor.classify(Reply(404, {}, body)) == Classification(NotFound(), rule=3)
    for other in (b"", b"Unknown number", b"<p>Unknown number.</p>", b'"Unknown number."', b"{}"):
        assert vendor.classify(Reply(404, {}, other)).outcome == "bad_response"
    assert vendor.classify(Reply(410, {}, b"Unknown number.")).outcome == "bad_response"


@pytest.mark.parametrize(
    ("document", "answer"),
    [
        ({"name": " Example \n Bakery ", "city": "Springfield"}, Found(name="Example Bakery", location="Springfield")),
        ({"name": "N/A", "city": "UNKNOWN", "state": "IL"}, Found(location="IL")),
        ({"name": "None", "city": " ", "state": None}, NotFound()),
        ({"name": None}, NotFound()),
        ({"name": ["A", "N/A", "B"]}, Found(name="A, B")),
        ({"name": 7, "city": "Springfield"}, Found(location="Springfield")),
        ({"name": 7}, Failed("bad_response", "200: its answer has another shape than the preset describes")),
        (
            {"name": {"first": "A"}},
            Failed("bad_response", "200: its answer has another shape than the preset describes"),
        ),
    ],
)
def test_text_is_cleaned_and_joined_and_never_guessed(make: Make, document: Any, answer: Answer) -> None:
    assert read(make(), document) == answer


def test_first_alternative_that_is_not_empty_is_used(make: Make) -> None:
    vendor = make(('name = ["name"]', 'name = ["best.name", "name", "other"]\nmax_length = 10'))
    assert read(vendor, {"name": "N/A", "other": "A Very Long Name"}) == Found(name="A Very Lon")
    assert read(vendor, {"name": "B", "best": {"name": "A"}}) == Found(name="A")


PLACES = [
    *("Waukegan, IL", "St. Louis, MO", "Fort St James, BC", "Sault Ste. Marie, MI", "Ft. Worth, TX", "Mt. Vernon, NY"),
    *("Helena, MT", "Helena MT", "Washington DC", "New Orleans, LA", "La Jolla, CA", "El Paso, TX", "Santa Fe, NM"),
    *("Fond du Lac, WI", "Du Quoin, IL", "King of Prussia, PA", "The Dalles, OR", "St. John's, NL", "O'Fallon, IL"),
    *("McAllen, TX", "Beale AFB, CA", "N Little Rock, AR", "Étang-du-Nord, QC", "Waukegan, Illinois"),
]


@pytest.mark.parametrize(
    ("sent", "location"),
    [
        *((place.upper(), place) for place in PLACES),
        ("WAUKEGAN, Illinois", "Waukegan, Illinois"),
        ("Des Moines, IA", "Des Moines, IA"),
        ("McALLEN, TX", "McALLEN, TX"),
    ],
)
def test_capitals_are_lowered_part_by_part(make: Make, sent: str, location: str) -> None:
    vendor = make(('name = ["name"]', 'name = ["name"]\ncapitals = ["location"]'))
    assert read(vendor, {"name": "SHOUTED", "city": sent}) == Found(name="SHOUTED", location=location)


SPAM = ('yes = ["score >= `5`"]\n', 'never = "friend"\nyes = ["score >= `5`", "listed == \'Y\'"]\n')


@pytest.mark.parametrize(
    ("document", "spam"),
    [
        ({"score": 5}, True),
        ({"score": 4}, False),
        ({"score": 0}, False),
        ({"score": None}, None),
        ({"score": True}, None),
        ({"score": [9]}, None),
        ({"score": {"value": 9}}, None),
        ({"score": None, "listed": "Y"}, True),
        ({"score": 9, "friend": True}, False),
        ({"score": 9, "friend": False}, True),
        ({"score": 4, "friend": None}, False),
    ],
)
def test_spam_is_never_guessed(make: Make, document: Any, spam: bool | None) -> None:
    answer = read(make(SPAM, name="mock_b"), {"name": "Example", **document})
    assert answer == Found(name="Example", spam=spam)


@pytest.mark.parametrize("document", [{"score": "many"}, {"score": 4, "friend": "yes"}])
def test_unreadable_spam_is_unknown(make: Make, document: Any) -> None:
    assert read(make(SPAM, name="mock_b"), {"name": "Example", **document}) == Found(name="Example")


def test_plain_text_body(make: Make) -> None:
    vendor = make(
        ('source = "these tests"', 'source = "these tests"\nbody = "text"'),
        ("known == `false`", "@ == 'CALLER: -'"),
        ("contains(keys(@), 'name')", "starts_with(@, 'CALLER: ')"),
        ('name = ["name"]\nlocation = ["[city, state]"]', 'name = ["@"]'),
    )
    found = vendor.classify(Reply(200, {}, b"CALLER:  Example Bakery\n"))
    assert found.answer == Found(name="CALLER: Example Bakery")
    assert vendor.classify(Reply(200, {}, b"CALLER: -")).answer == NotFound()
    for other in (b"", b"OK", b"\xff"):
        assert vendor.classify(Reply(200, {}, other)).outcome == "bad_response"


@pytest.mark.parametrize(
    ("value", "pause_s"),
    [
        *(("30", 30), ("0", 0), ("99999999999", 86400), ("soon", None), ("-5", None), ("1.5", None), ("", None)),
        ("٣", None),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0),
        ("Fri, 01 Jan 2100 00:00:00 GMT", 86400),
    ],
)
@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_in_seconds_or_as_a_date(make: Make, status: int, value: str, pause_s: float | None) -> None:
    answer = read(make(), {}, status, Retry_After=value)
    assert isinstance(answer, Failed)
    assert answer.retry_after_s == pause_s


@pytest.mark.parametrize(
    ("status", "hint"),
    [
        (401, "401: MOCK_A_KEY is rejected"),
        (402, "402: the account's quota or balance is exhausted"),
        (503, "503: it is unavailable"),
    ],
)
def test_hint_names_what_to_fix(make: Make, status: int, hint: str) -> None:
    assert read(make(), {}, status) == Failed({401: "auth", 402: "quota", 503: "unavailable"}[status], hint)


def test_hint_of_a_rejection_without_a_key(make: Make) -> None:
    answer = read(make((AUTH, "")), {}, 401)
    hint = "401: it rejects a request without a key; it may require one now, or block this address"
    assert answer == Failed("auth", hint)
    optional = make((AUTH, 'optional = true\nbearer = "MOCK_A_TOKEN"'))
    assert read(optional, {}, 401) == Failed("auth", "401: it requires a key: set MOCK_A_TOKEN")


def test_fix_of_a_rule_replaces_the_hint(make: Make) -> None:
    vendor = make(('status_alone = "these tests"\nis = "not_found"', 'is = "auth"\nfix = "Enable it first."'))
    assert read(vendor, {}, 404) == Failed("auth", "404: Enable it first.")
