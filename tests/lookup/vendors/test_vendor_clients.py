"""Outside oracles: the vendors' own Python clients read the same from the same bytes as our presets do.

The clients are no dependency of ours: `pip install --require-hashes -r requirements/oracles.lock`, in an environment of
its own, installs them. With CALLERID_REQUIRE_CLIENTS set, one that is missing is a failure.
"""

import importlib
import os
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lookup.answers import Found
from lookup.vendors import preset
from lookup.vendors.json_api import JsonApi
from lookup.vendors.preset import Sample
from tests import upstream
from tests.lookup.vendors.searches import answer_of
from tests.upstream import Upstream

#: What a client reads, as fields of ours where it has a word for them, given the server's URL and the number.
Reads = Callable[[Any, str, str], dict[str, Any]]


def twilio(module: Any, url: str, number: str) -> dict[str, Any]:
    client = importlib.import_module("twilio.rest").Client("AC0", "secret")
    client.lookups.base_url = url
    found = client.lookups.v2.phone_numbers(f"+{number}").fetch(fields="caller_name")
    return {"name": (found.caller_name or {}).get("caller_name")}


def telnyx(module: Any, url: str, number: str) -> dict[str, Any]:
    client = module.Telnyx(api_key="secret", base_url=f"{url}/v2", max_retries=0)
    data = client.number_lookup.retrieve(phone_number=f"+{number}", type="caller-name").data
    identity = getattr(data, "caller_identity", None)
    name = getattr(identity, "name", None) or getattr(data.caller_name, "caller_name", None)
    return {"name": name}


def google_find_place(module: Any, url: str, number: str) -> dict[str, Any]:
    client = module.Client(key="AIza-secret", base_url=url, retry_timeout=1)
    fields = ["name", "formatted_address"]
    candidates = client.find_place(f"+{number}", "phonenumber", fields=fields)["candidates"]
    return {"name": candidates[0]["name"]} if candidates else {"name": None}


def usacallerlookup(module: Any, url: str, number: str) -> dict[str, Any]:
    module._BASE = f"{url}/wp-json/ucl/v1"
    place = module.lookup_number(number)["location"]
    return {"location": f"{place['city']}, {place['state']}" if place else None}


def veriroute(module: Any, url: str, number: str) -> dict[str, Any]:
    with module.VeriRoute("secret", base_url=url, retries=0) as client:
        return {"name": client.cnam(f"+{number}", include_spam=True).cnam}


CLIENTS: dict[str, tuple[str, Reads]] = {
    "google_find_place": ("googlemaps", google_find_place),
    "telnyx": ("telnyx", telnyx),
    "twilio": ("twilio", twilio),
    "usacallerlookup": ("usacallerlookup", usacallerlookup),
    "veriroute": ("verirouteintel", veriroute),
}
SAMPLES = [
    pytest.param(name, sample, id=f"{name}: {sample.title}")
    for name in CLIENTS
    for sample in preset.load(preset.SHIPPED / f"{name}.toml").sample
    if sample.expect.outcome in ("found", "not_found") and sample.status == 200
]


@pytest.fixture
def vendor() -> Iterator[Upstream]:
    server = Upstream(upstream.hangs).start()
    yield server
    server.stop()


def client_of(name: str) -> Any:
    module = CLIENTS[name][0]
    try:
        return importlib.import_module(module)
    except ImportError:
        if os.environ.get("CALLERID_REQUIRE_CLIENTS"):
            raise
        pytest.skip(f"the vendor's client {module} is not installed: see requirements/oracles.lock")


@pytest.mark.parametrize(("name", "sample"), SAMPLES)
def test_the_vendors_own_client_reads_the_same(name: str, sample: Sample, vendor: Upstream) -> None:
    module, reads = client_of(name), CLIENTS[name][1]
    vendor.behave_as(upstream.raw(sample.body.encode(), headers="Content-Type: application/json\r\n"))
    loaded = preset.load(preset.SHIPPED / f"{name}.toml")
    environment = {**dict.fromkeys(loaded.auth.names, "a-secret"), loaded.base_url_name: vendor.url}
    number = sample.number or repeated(sample.body) or next(each.number for each in loaded.sample if each.number)
    answer = answer_of(JsonApi(loaded, environment), number)
    ours = answer.known() if isinstance(answer, Found) else {}
    theirs = reads(module, vendor.url, number)
    assert {field: ours.get(field) for field in theirs} == {field: value or None for field, value in theirs.items()}
    assert len({asked_for(head) for head in vendor.heads}) == 1, "they ask for the same"


def repeated(body: str) -> str | None:
    """The number that an answer is about, with its country code."""
    found = re.search(r'"(?:phone_number|number|phone)":"(\+?)([0-9-]+)"', body)
    return found and ("" if found[1] else "1") + found[2].replace("-", "")


def asked_for(head: bytes) -> str:
    """Method and path: how a query is ordered, and what a client adds to it, is its own affair."""
    return head.split(b"\r\n")[0].decode().partition("?")[0].removesuffix(" HTTP/1.1").replace("%2B", "+")
