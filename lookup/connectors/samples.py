"""A preset's own samples, read by its own rules: what `check_sources --samples`, the system checks and the tests run.
Nothing is sent."""

from collections.abc import Iterator
from dataclasses import dataclass

from lookup.answers import FIELDS, Failed, Found
from lookup.connectors import transport
from lookup.connectors.json_api import JsonApi
from lookup.connectors.preset import Preset, Sample
from lookup.connectors.templates import NotBoolean, Unreadable

#: Stands for every secret; a sample's `request` leaves it out.
SECRET = "secret"  # noqa: S105


@dataclass(frozen=True, slots=True)
class Result:
    """`rule`: the number, from 1, of the rule that the sample reaches; None where only its status speaks."""

    sample: Sample
    problems: tuple[str, ...]
    rule: int | None


def connector(preset: Preset) -> JsonApi:
    """With a made-up value for each secret."""
    return JsonApi(preset, dict.fromkeys(preset.auth.names, SECRET))


def run(preset: Preset) -> list[Result]:
    """Raises EnvironmentLacks."""
    vendor = connector(preset)
    return [_result(vendor, sample) for sample in preset.sample]


def unreached_rules(preset: Preset, results: list[Result]) -> str:
    """Which rules none of `results` has reached, numbered from 1, or "": nothing shows that those rules work."""
    reached = {result.rule for result in results}
    missing = [str(number) for number in range(1, len(preset.outcome) + 1) if number not in reached]
    return f"no sample reaches outcome {', '.join(missing)} (counted from 1)" if missing else ""


def _result(vendor: JsonApi, sample: Sample) -> Result:
    reply = transport.Reply(sample.status, sample.headers, sample.body.encode())
    problems = [*_request_problems(vendor, sample), *_reply_problems(vendor, sample, reply)]
    rule = None
    try:
        rule = vendor.matching_rule(reply)
    except NotBoolean as error:
        problems.append(f"fails: {error}")
    except Unreadable:
        pass  # a body of another shape, which a sample may show
    return Result(sample, tuple(problems), rule)


def _request_problems(vendor: JsonApi, sample: Sample) -> Iterator[str]:
    if not vendor.covers(sample.number):
        yield f"{sample.number} is outside the preset's coverage"
    elif sample.request and (sent := vendor.request_line(sample.number)) != sample.request:
        yield f"asks {sent} instead of {sample.request}"


def _reply_problems(vendor: JsonApi, sample: Sample, reply: transport.Reply) -> Iterator[str]:
    expect = sample.expect
    outcome, answer = vendor.judge(reply)
    if outcome != expect.outcome:
        yield f"is {outcome} instead of {expect.outcome}"
    known = answer.known() if isinstance(answer, Found) else {}
    wanted = {field: value for field in FIELDS if (value := getattr(expect, field)) is not None}
    if known != wanted:
        yield f"says {known} instead of {wanted}"
    if isinstance(answer, Failed) and not answer.hint:
        yield "says nothing about what to fix"
