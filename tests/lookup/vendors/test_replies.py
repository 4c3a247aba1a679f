"""How the reply of a vendor is classified and read."""

import json
from typing import Any

import pytest
from multidict import CIMultiDict

from lookup.answers import Answer, Failed, Found, NotFound
from lookup.vendors.json_api import Classification, JsonApi
from lookup.vendors.transport import Reply
from tests.lookup.vendors.conftest import AUTH, Make


def read(vendor: JsonApi, document: Any, status: int = 200, **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return vendor.classify(Reply(status, named, json.dumps(document).encode())).answer


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


@pytest.mark.parametrize(("status", "specific"), [(400, True), (404, True), (422, True), (302, False), (500, False)])
def test_request_errors_are_number_specific(make: Make, status: int, specific: bool) -> None:
    vendor = make(("status = [404]", "status = [410]"))
    answer = read(vendor, {}, status)
    assert isinstance(answer, Failed)
    assert answer.number_specific is specific


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
        (
            b"\xff\xfe",
            "12025550123",
            "200: its answer is not UTF-8, nor in a charset that it declares (Content-Type unusual)",
        ),
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


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("body", [b"", b"<html>moved"])
def test_redirect_says_what_to_set(make: Make, status: int, body: bytes) -> None:
    answer = make().classify(Reply(status, {"Location": "https://www.example.com/"}, body)).answer
    hint = f"{status}: it redirects, which is not followed: set MOCK_A_BASE_URL to the address that it names"
    assert answer == Failed("bad_response", hint)


@pytest.mark.parametrize("status", [403, 404, 429, 503, 200])
def test_challenge_of_cloudflare_is_no_answer_of_the_vendor(make: Make, status: int) -> None:
    answer = make().classify(Reply(status, CIMultiDict({"CF-Mitigated": "challenge"}), b"<html>")).answer
    assert isinstance(answer, Failed)
    assert (answer.reason, answer.number_specific) == ("unavailable", False)
    assert "a firewall in front of it (Cloudflare)" in answer.hint


@pytest.mark.parametrize("body", [b"", b'{"status": "pending", "known": false}', b'{"name": "Pending"}'])
def test_vendor_that_still_looks_up_has_not_answered(make: Make, body: bytes) -> None:
    answer = make().classify(Reply(202, {}, body)).answer
    assert isinstance(answer, Failed)
    assert (answer.reason, answer.number_specific) == ("unavailable", True)
    assert "it is still looking the number up" in answer.hint


def test_whole_text_may_be_the_name_where_that_is_documented(make: Make) -> None:
    vendor = make(
        ('source = "these tests"', 'source = "these tests"\nbody = "text"'),
        ("known == `false`", "@ == '-'"),
        ("when = \"contains(keys(@), 'name')\"", 'status_alone = "docs.example.com: 200"'),
        ('name = ["name"]\nlocation = ["[city, state]"]', 'name = ["@"]'),
    )
    assert vendor.classify(Reply(200, {}, b"Example Bakery\n")).answer == Found(name="Example Bakery")
    assert vendor.classify(Reply(200, {}, b"UNAVAILABLE")).answer == NotFound()
    page = vendor.classify(Reply(200, {}, b"\n<!doctype html><title>Sign in</title>")).answer
    assert page == Failed("bad_response", "200: its answer is HTML, not plain text (no Content-Type)")


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
    ("charset", "name"),
    [
        *(("; charset=latin1", "Müller".encode("latin-1")), (";charset='US-ASCII'", "Müller".encode("cp1252"))),
        *(
            ("; charset=ISO-8859-1", "Müller".encode()),
            ("; charset=utf-16", "Müller".encode()),
            ("", "Müller".encode()),
        ),
        *((";Charset=UTF-16LE", "Müller".encode("utf-16-le")), ("; charset=cp437", "Müller".encode("cp437"))),
        ("; charset=none-such", b"\xef\xbb\xbf" + "Müller".encode()),
    ],
)
def test_text_is_decoded_as_its_bytes_then_its_label_say(make: Make, charset: str, name: bytes) -> None:
    vendor = make(
        ('source = "these tests"', 'source = "these tests"\nbody = "text"'),
        ("known == `false`", "@ == '-'"),
        ("contains(keys(@), 'name')", "starts_with(@, 'Mü')"),
        ('name = ["name"]\nlocation = ["[city, state]"]', 'name = ["@"]'),
    )
    assert vendor.classify(Reply(200, {"Content-Type": f"text/plain{charset}"}, name)).answer == Found(name="Müller")


@pytest.mark.parametrize(("body", "specific"), [(b'{"name": "M\xfcller"}', True), (b'{"name": "M\xfcl', False)])
def test_unknown_encoding_of_one_name_is_number_specific(make: Make, body: bytes, specific: bool) -> None:
    answer = make().classify(Reply(200, {}, body)).answer
    assert isinstance(answer, Failed)
    assert answer.number_specific is specific


@pytest.mark.parametrize("status", [429, 503])
def test_pause_is_the_one_asked_for_at_most_minutes(make: Make, status: int) -> None:
    pauses = {"30": 30, "0.5": 0.5, "0": 0, "7200": 600, "86400000": None, "soon": None}
    answers = {value: read(make(), {}, status, Retry_After=value) for value in pauses}
    assert {value: getattr(answer, "retry_after_s", "found") for value, answer in answers.items()} == pauses
    hints = {value: answer.hint.partition("; ")[2] for value, answer in answers.items() if isinstance(answer, Failed)}
    assert hints["0.5"] == "retry after 0.5 s"
    assert hints["7200"] == "retry after 600 s, although it asks for 7200 s"
    assert hints["soon"] == "its Retry-After is ignored: no plausible time"


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
