"""The request that a vendor receives, and the environment that it needs."""

import json
from pathlib import Path
from typing import Any

import pytest

from lookup.answers import Failed, Found
from lookup.vendors import preset
from lookup.vendors.json_api import JsonApi
from lookup.vendors.preset import MissingEnvironment
from tests.lookup.vendors.conftest import AUTH, Make
from tests.lookup.vendors.searches import answer_of
from tests.mock_vendors import KEYS, PRESETS, Vendors

NUMBER = "12025550123"


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


@pytest.mark.parametrize(
    ("auth", "headers", "query"),
    [
        (AUTH, {"X-Key": "k1"}, ""),
        ('headers = { X-Sid = "MOCK_A_SID", X-Key = "MOCK_A_KEY" }', {"X-Sid": "s1", "X-Key": "k1"}, ""),
        ('bearer = "MOCK_A_KEY"', {"Authorization": "Bearer k1"}, ""),
        ('query = { api_key = "MOCK_A_KEY" }', {}, "&api_key=k1"),
        ('query = { id = "MOCK_A_SID", api_key = "MOCK_A_KEY" }', {}, "&id=s1&api_key=k1"),
        ('basic = ["MOCK_A_SID", "MOCK_A_KEY"]', {"Authorization": "Basic czE6azE="}, ""),
        (
            'bearer = "MOCK_A_KEY"\nheaders = { X-Sid = "MOCK_A_SID" }\nquery = { id = "MOCK_A_SID" }',
            {"Authorization": "Bearer k1", "X-Sid": "s1"},
            "&id=s1",
        ),
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


def test_keys_are_added_to_the_json_body(make: Make) -> None:
    keys = ("{key}/report", "report"), ('path = "MOCK_B_KEY"', 'json = { api_key = "MOCK_B_KEY", id = "MOCK_B_ID" }')
    request = make(*keys, name="mock_b", MOCK_B_KEY="{k1}", MOCK_B_ID="7").request(NUMBER)
    sent = {"phone": "+12025550123", "options": {"spam": True}, "api_key": "{k1}", "id": "7"}
    assert json.loads(request.body or b"") == sent


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
