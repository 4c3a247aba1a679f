"""Checks a preset against its own samples, offline: for `check_sources --samples`, the console and the tests."""

from collections.abc import Iterator
from dataclasses import dataclass

from lookup.answers import FIELDS, Failed, Found
from lookup.vendors import transport
from lookup.vendors.json_api import Classification, JsonApi
from lookup.vendors.preset import Preset, Sample

#: The value of every secret; a sample's `request` leaves it out.
SECRET = "SECRET-OF-A-SAMPLE"  # noqa: S105


@dataclass(frozen=True, slots=True)
class SampleResult:
    """`rule`: the number, from 1, of the rule that the sample reaches; None if its status decides."""

    sample: Sample
    problems: tuple[str, ...]
    rule: int | None


def connector(preset: Preset) -> JsonApi:
    """The connector of a preset, with a made-up value for each secret."""
    return JsonApi(preset, dict.fromkeys(preset.auth.names, SECRET))


def run(preset: Preset) -> list[SampleResult]:
    """Raises MissingEnvironment."""
    vendor, results = connector(preset), []
    for sample in preset.sample:
        classified = vendor.classify(transport.Reply(sample.status, sample.headers, sample.body.encode()))
        results.append(SampleResult(sample, tuple(_problems(vendor, sample, classified)), classified.rule))
    return results


def unreached_rules(preset: Preset, results: list[SampleResult]) -> str:
    """The rules that no sample reaches, numbered from 1, or "". Nothing shows that such a rule works."""
    reached = {result.rule for result in results}
    missing = [str(number) for number in range(1, len(preset.rules) + 1) if number not in reached]
    return f"no sample reaches outcome {', '.join(missing)} (counted from 1)" if missing else ""


def _problems(vendor: JsonApi, sample: Sample, classified: Classification) -> Iterator[str]:
    expect, answer = sample.expect, classified.answer
    if not vendor.covers(sample.number):
        yield f"{sample.number} is outside the preset's coverage"
    elif sample.request:
        sent = vendor.request(sample.number)
        line = f"{sent.method} {sent.url.replace(SECRET, '')}"
        if line != sample.request:
            yield f"sends {line} instead of {sample.request}"
    if classified.outcome != expect.outcome:
        yield f"is {classified.outcome} instead of {expect.outcome}"
    known = answer.known() if isinstance(answer, Found) else {}
    expected = {field: value for field in FIELDS if (value := getattr(expect, field)) is not None}
    if known != expected:
        yield f"gives {known} instead of {expected}"
    if classified.not_boolean and isinstance(answer, Failed):
        yield f"fails: {answer.hint}"
