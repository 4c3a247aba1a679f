"""Answers that concern one number, or are incomplete, of the shipped presets: circuit breaker and cache."""

from typing import Any

import pytest

from lookup.answers import Found
from lookup.vendors import circuit_breaker
from lookup.vendors.preset import Sample
from tests.awaited import search
from tests.lookup.vendors.searches import guard_of, numbers, shipped_preset, words
from tests.mock_vendors import Vendors
from tests.upstream import raw

pytestmark = pytest.mark.django_db

#: Samples of failures and answers that concern their number alone.
NUMBER_SPECIFIC = [
    ("telnyx", "the source of names did not answer"),
    ("telnyx", "the name failed with another error, beside a place"),
    ("telnyx", "the number is inactive, so it has no name"),
    ("telnyx", "the number is refused as invalid"),
    ("telnyx", "another request that it refuses"),
    ("trestle", "a partial answer with neither name nor place"),
    ("trestle", "a malformed request"),
    ("twilio", "the provider of names replied with an error"),
    ("twilio", "the number was looked up too often"),
    ("twilio", "no carrier has the number"),
    ("veriroute", "an error instead of the name"),
    ("veriroute", "an error with status 200"),
    ("veriroute", "the number is invalid"),
]
#: Samples of failures that may concern every number.
COUNTED = [
    ("telnyx", "it is down"),
    ("trestle", "it is down"),
    ("twilio", "the provider of names is degraded"),
    ("twilio", "caller name failed otherwise"),
    ("veriroute", "its own source is down"),
]


@pytest.fixture
def bind(vendors: Vendors, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Binds slot A to a shipped preset whose vendor is `vendors.a`."""

    def bind(name: str) -> dict[str, Sample]:
        shipped = shipped_preset(name)
        for variable in shipped.auth.names:
            monkeypatch.setenv(variable, "a-key-of-ours-7f3b")
        monkeypatch.setenv(shipped.base_url_name, vendors.a.url)
        settings.SOURCE_A, settings.SOURCE_B, settings.SEARCH_DEADLINE_S = name, "complaints", 20
        return {sample.title: sample for sample in shipped.sample}

    return bind


def reply_with(vendors: Vendors, sample: Sample) -> None:
    vendors.a.behave_as(raw(sample.body.encode(), sample.status))


@pytest.mark.parametrize(("name", "title"), NUMBER_SPECIFIC)
def test_five_bad_numbers_leave_the_breaker_closed(vendors: Vendors, bind: Any, name: str, title: str) -> None:
    samples = bind(name)
    reply_with(vendors, samples[title])
    bad, good = numbers(circuit_breaker.FAILURES), "12025559999"
    answered = samples[title].expect.outcome in ("not_found", "invalid_number")
    assert {words(number)[0] for number in bad} == {"not-found" if answered else "failed"}
    assert not guard_of(name).breaker.is_open
    known = next(sample for sample in samples.values() if sample.expect.name)
    reply_with(vendors, known)
    answer = search(good).slots["source_a"].answer
    assert isinstance(answer, Found)
    assert answer.name == known.expect.name
    assert len(vendors.a.heads) == circuit_breaker.FAILURES + 1


@pytest.mark.parametrize(("name", "title"), COUNTED)
def test_five_failures_of_a_vendor_open_its_breaker(vendors: Vendors, bind: Any, name: str, title: str) -> None:
    reply_with(vendors, bind(name)[title])
    assert [words(number)[0] for number in numbers(circuit_breaker.FAILURES)] == ["failed"] * circuit_breaker.FAILURES
    assert guard_of(name).breaker.is_open


@pytest.mark.parametrize(
    ("name", "title", "calls"),
    [
        ("trestle", "a partial answer with a name", 2),
        ("trestle", "a partial answer with a place", 2),
        ("trestle", "a name and a list of addresses", 1),
        ("veriroute", "an error beside a name", 2),
        ("veriroute", "a name is known and nothing is reported", 1),
    ],
)
def test_incomplete_answer_is_used_and_not_cached(
    vendors: Vendors, bind: Any, name: str, title: str, calls: int
) -> None:
    sample = bind(name)[title]
    reply_with(vendors, sample)
    expected = Found(name=sample.expect.name, location=sample.expect.location)
    assert [search("12025550123").slots["source_a"].answer for _ in range(2)] == [expected] * 2
    assert len(vendors.a.heads) == calls


def test_spam_beside_a_failed_name_is_kept(vendors: Vendors, bind: Any, settings: Any) -> None:
    """In slot A the missing name is a failure, which is not charged as "not found"."""
    sample = bind("veriroute")["an error instead of the name, and the number is reported"]
    settings.SOURCE_B = "veriroute"
    reply_with(vendors, sample)
    for _ in range(2):
        slots = search("12025550123").slots
        assert slots["source_a"].status == "failed"
        assert slots["source_b"].answer == Found(spam=True)
    assert len(vendors.a.heads) == 2
