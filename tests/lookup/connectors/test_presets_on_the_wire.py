"""What every vendor's connector inherits, over real sockets: its samples, silence, refusal, junk, emptiness."""

from collections.abc import Iterator
from typing import Any

import pytest

from lookup.answers import Failed, Found, NotFound
from lookup.connectors import preset
from lookup.connectors.json_api import JsonApi
from lookup.connectors.preset import EnvironmentLacks, Preset
from tests import upstream
from tests.upstream import Upstream

pytestmark = pytest.mark.once

FILES = sorted(preset.SHIPPED.glob("*.toml"))
SECRET = "a-secret-of-ours-51c0"


@pytest.fixture
def vendor() -> Iterator[Upstream]:
    server = Upstream(upstream.hangs).start()
    yield server
    server.stop()


@pytest.fixture(params=FILES, ids=[file.stem for file in FILES])
def shipped(request: pytest.FixtureRequest) -> Preset:
    return preset.load(request.param)


def bound(shipped: Preset, vendor: Upstream) -> JsonApi:
    return JsonApi(shipped, {**dict.fromkeys(shipped.auth.names, SECRET), shipped.base_url_name: vendor.url})


def number(shipped: Preset) -> str:
    return next(sample.number for sample in shipped.sample if shipped.covers(sample.number))


def test_its_samples_come_over_the_wire_as_they_are_read(shipped: Preset, vendor: Upstream) -> None:
    connector = bound(shipped, vendor)
    for sample in shipped.sample:
        if not shipped.covers(sample.number):
            continue
        headers = "".join(f"{name}: {value}\r\n" for name, value in sample.headers.items())
        vendor.repair(upstream.raw(sample.body.encode(), sample.status, headers))
        expect = sample.expect
        answer = connector.lookup(sample.number, timeout_s=5)
        if expect.outcome == "found":
            assert answer == Found(name=expect.name, location=expect.location, spam=expect.spam), sample.title
        elif expect.outcome in ("not_found", "invalid_number"):
            assert answer == NotFound(), sample.title
        else:
            assert isinstance(answer, Failed), sample.title
            assert answer.reason == expect.outcome, sample.title
    asked = vendor.heads[0].split(b"\r\n")[0].decode()
    first = next(sample for sample in shipped.sample if sample.request)
    method, _, url = first.request.partition(" ")
    assert asked.startswith(f"{method} /")
    assert url.removeprefix(shipped.request.origin).partition("?")[0].strip("/").split("/")[0] in asked


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("hangs before headers", "unavailable"),
        ("drips its body", "unavailable"),
        ("resets", "unavailable"),
        ("301", "bad_response"),
        ("401", "auth"),
        ("402", "quota"),
        ("403", "auth"),
        ("429", "rate_limited"),
        ("500", "unavailable"),
        ("HTML with 200", "bad_response"),
        ("204", "bad_response"),
        ("10 GB", "bad_response"),
    ],
)
def test_a_fault_is_a_failure_that_says_what_to_do_and_no_secret(
    shipped: Preset, vendor: Upstream, settings: Any, fault: str, reason: str
) -> None:
    settings.CALL_LIFETIME_S = 0.15 if fault.startswith(("hangs", "drips")) else 5
    vendor.repair(upstream.FAULTS[fault][0])
    answer = bound(shipped, vendor).lookup(number(shipped), timeout_s=5)
    assert isinstance(answer, Failed)
    assert answer.reason == reason
    assert answer.hint
    assert ("not done after 0.15 s" in answer.hint) == fault.startswith(("hangs", "drips"))
    assert SECRET not in repr(answer)
    assert number(shipped)[2:] not in repr(answer)


def test_its_secrets_go_where_the_vendor_wants_them_and_are_all_used(shipped: Preset, vendor: Upstream) -> None:
    connector = bound(shipped, vendor)
    vendor.repair(upstream.raw(b"{}"))
    connector.lookup(number(shipped), timeout_s=5)
    sent = vendor.heads[0] + vendor.bodies[0]
    encoded = b"Authorization: Basic " if shipped.auth.basic else SECRET.encode()
    assert (encoded in sent) == bool(shipped.auth.names)


def test_without_its_keys_it_cannot_be_bound_unless_they_are_optional(shipped: Preset) -> None:
    if shipped.auth.names and not shipped.auth.optional:
        with pytest.raises(EnvironmentLacks, match=shipped.auth.names[0]):
            JsonApi(shipped, {})
    else:
        assert JsonApi(shipped, {}).covers(number(shipped))
