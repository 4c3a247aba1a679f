"""Every shipped preset over real sockets: its samples, faults of the vendor, and secrets."""

from collections.abc import Iterator
from typing import Any

import pytest

from lookup.answers import Failed, Found, NotFound
from lookup.vendors import preset
from lookup.vendors.json_api import JsonApi
from lookup.vendors.preset import MissingEnvironment, Preset
from tests import upstream
from tests.lookup.vendors.searches import answer_of, shipped_preset
from tests.upstream import Upstream

pytestmark = pytest.mark.once

NAMES = sorted(file.stem for file in preset.SHIPPED.glob("*.toml"))
SECRET = "a-secret-of-ours-51c0"


@pytest.fixture
def vendor() -> Iterator[Upstream]:
    server = Upstream(upstream.hangs).start()
    yield server
    server.stop()


@pytest.fixture(params=NAMES)
def shipped(request: pytest.FixtureRequest) -> Preset:
    return shipped_preset(request.param)


def bound(shipped: Preset, vendor: Upstream) -> JsonApi:
    return JsonApi(shipped, {**dict.fromkeys(shipped.auth.names, SECRET), shipped.base_url_name: vendor.url})


def number(shipped: Preset) -> str:
    return next(sample.number for sample in shipped.sample if shipped.covers(sample.number))


def test_samples_over_the_wire(shipped: Preset, vendor: Upstream) -> None:
    connector = bound(shipped, vendor)
    for sample in shipped.sample:
        if not shipped.covers(sample.number):
            continue
        headers = "".join(f"{name}: {value}\r\n" for name, value in sample.headers.items())
        vendor.behave_as(upstream.raw(sample.body.encode(), sample.status, headers))
        expect = sample.expect
        answer = answer_of(connector, sample.number)
        if expect.outcome == "found":
            assert answer == Found(name=expect.name, location=expect.location, spam=expect.spam), sample.title
        elif expect.outcome in ("not_found", "invalid_number"):
            assert answer == NotFound(), sample.title
        else:
            assert isinstance(answer, Failed), sample.title
            assert answer.reason == expect.outcome, sample.title
    sent = vendor.heads[0].split(b"\r\n")[0].decode()
    first = next(sample for sample in shipped.sample if sample.request)
    method, _, url = first.request.partition(" ")
    assert sent.startswith(f"{method} /")
    assert url.removeprefix(shipped.request.origin).partition("?")[0].strip("/").split("/")[0] in sent


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
def test_fault_is_a_failure_with_a_hint_and_no_secret(
    shipped: Preset, vendor: Upstream, settings: Any, fault: str, reason: str
) -> None:
    settings.CALL_LIFETIME_S = 0.15 if fault.startswith(("hangs", "drips")) else 5
    vendor.behave_as(upstream.FAULTS[fault][0])
    answer = answer_of(bound(shipped, vendor), number(shipped))
    assert isinstance(answer, Failed)
    assert answer.reason == reason
    assert answer.hint
    assert ("no complete reply within 0.15 s" in answer.hint) == fault.startswith(("hangs", "drips"))
    assert SECRET not in repr(answer)
    assert number(shipped)[2:] not in repr(answer)


def test_every_secret_is_sent(shipped: Preset, vendor: Upstream) -> None:
    connector = bound(shipped, vendor)
    vendor.behave_as(upstream.raw(b"{}"))
    answer_of(connector, number(shipped))
    sent = vendor.heads[0] + vendor.bodies[0]
    encoded = b"Authorization: Basic " if shipped.auth.basic else SECRET.encode()
    assert (encoded in sent) == bool(shipped.auth.names)


def test_keys_are_required_unless_optional(shipped: Preset) -> None:
    if shipped.auth.names and not shipped.auth.optional:
        with pytest.raises(MissingEnvironment, match=shipped.auth.names[0]):
            JsonApi(shipped, {})
    else:
        assert JsonApi(shipped, {}).covers(number(shipped))
