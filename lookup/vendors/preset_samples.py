"""Checks a preset against its own samples, offline: for `check_preset`, the console and the tests."""

import base64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import get_args

from lookup.answers import FIELDS, Failed, Found
from lookup.vendors import transport
from lookup.vendors.json_api import HEADERS, Classification, JsonApi
from lookup.vendors.preset import ANSWERS, Outcome, Preset, Sample

FAILURES = {*get_args(Outcome)} - {*ANSWERS}
#: The value of every secret; a sample's `request` leaves it out.
SECRET = "SECRET-OF-A-SAMPLE"  # noqa: S105


@dataclass(frozen=True, slots=True)
class SampleResult:
    sample: Sample
    problems: tuple[str, ...]
    classified: Classification


def connector(preset: Preset) -> JsonApi:
    """The connector of a preset, with a made-up value for each secret."""
    return _connector(preset, dict.fromkeys(preset.auth.names, SECRET))


def _connector(preset: Preset, secrets: dict[str, str]) -> JsonApi:
    if signature := preset.auth.signature:
        secrets[signature.key] = base64.b64encode(secrets[signature.key].encode()).decode()
    return JsonApi(preset, secrets)


def run(preset: Preset) -> list[SampleResult]:
    """Raises MissingEnvironment."""
    vendor, results = connector(preset), []
    for sample in preset.sample:
        classified = vendor.classify(transport.Reply(sample.status, sample.headers, sample.body.encode()))
        results.append(SampleResult(sample, tuple(_problems(vendor, sample, classified)), classified))
    return results


def missing_samples(preset: Preset, results: list[SampleResult]) -> list[str]:
    """What no sample shows: an answer, an error, or a rule. Rules are numbered from 1."""
    outcomes = {result.sample.expect.outcome for result in results}
    kinds = {"found": {"found"}, "not found": {"not_found", "invalid_number"}, "an error": FAILURES}
    missing = [f"no sample of {name}" for name, kind in kinds.items() if not outcomes & kind]
    reached = {result.classified.rule for result in results}
    if rules := [str(number) for number in range(1, len(preset.rules) + 1) if number not in reached]:
        missing.append(f"no sample reaches outcome {', '.join(rules)} (counted from 1)")
    return missing


def shown_request(preset: Preset, number: str, environment: Mapping[str, str]) -> str:
    """The request about `number` in this environment, with the names of its variables in place of the secrets."""
    auth = preset.auth
    urls = {name: environment.get(name, "") for name in (preset.base_url_name, preset.token_url_name)}
    vendor = _connector(preset, {**urls, **{name: name for name in auth.names}})
    sent = vendor.request(number, "TOKEN" if auth.oauth2 else "")
    headers = {name: value for name, value in sent.headers.items() if name not in HEADERS}
    if auth.basic:
        headers["Authorization"] = f"Basic {':'.join(auth.basic)} (in base64)"
    lines = [f"{sent.method} {sent.url}", *(f"{name}: {value}" for name, value in headers.items())]
    return "\n".join([*lines, *(["", sent.body.decode()] if sent.body else [])])


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
