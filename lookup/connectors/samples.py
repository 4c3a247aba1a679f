"""A preset's own samples, read by its own rules: what `check_sources --samples` and the tests run. Nothing is sent."""

from collections.abc import Iterator
from dataclasses import dataclass

from lookup.answers import FIELDS, Failed, Found
from lookup.connectors import transport
from lookup.connectors.json_api import JsonApi
from lookup.connectors.preset import Preset, Sample

#: Stands for every secret; a sample's `request` leaves it out.
SECRET = "secret"  # noqa: S105


@dataclass(frozen=True, slots=True)
class Result:
    sample: Sample
    problems: tuple[str, ...]


def connector(preset: Preset) -> JsonApi:
    """With a made-up value for each secret."""
    return JsonApi(preset, dict.fromkeys(preset.auth.names, SECRET))


def run(preset: Preset) -> Iterator[Result]:
    vendor = connector(preset)
    for sample in preset.sample:
        yield Result(sample, tuple(_problems(vendor, sample)))


def _problems(vendor: JsonApi, sample: Sample) -> Iterator[str]:
    expect = sample.expect
    if not vendor.covers(sample.number):
        yield f"{sample.number} is outside the preset's coverage"
    elif sample.request:
        request = vendor.request(sample.number)
        if (sent := f"{request.method} {request.url.replace(SECRET, '')}") != sample.request:
            yield f"asks {sent} instead of {sample.request}"
    outcome, answer = vendor.judge(transport.Reply(sample.status, sample.headers, sample.body.encode()))
    if outcome != expect.outcome:
        yield f"is {outcome} instead of {expect.outcome}"
    known = answer.known() if isinstance(answer, Found) else {}
    wanted = {field: value for field in FIELDS if (value := getattr(expect, field)) is not None}
    if known != wanted:
        yield f"says {known} instead of {wanted}"
    if isinstance(answer, Failed) and not answer.hint:
        yield "says nothing about what to fix"
