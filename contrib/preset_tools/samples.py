"""Checks a preset against its own samples, offline: for `check_preset`, and the console's check of a source."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, get_args

from lookup.answers import FIELDS, Failed, Found
from lookup.vendors import bodies, transport
from lookup.vendors.expressions import Expression, UnexpectedShape
from lookup.vendors.json_api import HEADERS, Classification, JsonApi
from lookup.vendors.preset import ANSWERS, ExpectedAnswer, Fields, Outcome, Preset, Sample

FAILURES = {*get_args(Outcome)} - {*ANSWERS}
#: The value of every secret, in base64 as keys of signatures are; a sample's `request` leaves it out.
SECRET = "U0VDUkVULU9GLUEtU0FNUExF"  # noqa: S105


@dataclass(frozen=True, slots=True)
class SampleResult:
    sample: Sample
    problems: tuple[str, ...]
    classified: Classification


def connector(preset: Preset) -> JsonApi:
    """The connector of a preset, with a made-up value for each secret."""
    return JsonApi(preset, dict.fromkeys(preset.auth.names, SECRET))


def run(preset: Preset) -> list[SampleResult]:
    """Raises MissingEnvironment."""
    vendor, results = connector(preset), []
    for sample in preset.sample:
        reply = transport.Reply(sample.status, sample.headers, sample.body.encode())
        classified = vendor.classify(reply, sample.number)
        results.append(SampleResult(sample, tuple(_problems(vendor, sample, reply, classified)), classified))
    return results


def problems(preset: Preset) -> list[tuple[str, str]]:
    return [(each.sample.title, "; ".join(each.problems)) for each in run(preset)]


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
    secrets = {name: name for name in auth.names}
    if auth.signature:
        secrets[auth.signature.key] = SECRET
    vendor = JsonApi(preset, urls | secrets)
    sent = vendor.request(number, "TOKEN" if auth.oauth2 else "")
    headers = {name: value for name, value in sent.headers.items() if name not in HEADERS}
    if auth.basic:
        headers["Authorization"] = f"Basic {':'.join(auth.basic)} (in base64)"
    lines = [f"{sent.method} {sent.url}", *(f"{name}: {value}" for name, value in headers.items())]
    return "\n".join([*lines, *(["", sent.body.decode()] if sent.body else [])])


def explained(
    vendor: JsonApi, reply: transport.Reply, classified: Classification, expect: ExpectedAnswer | None = None
) -> Iterator[str]:
    """Why a reply is read as it is, or otherwise than expected: `outcome[5].when gives null`. The values are the
    reply's, so this is for whoever writes the preset, never for logs."""
    preset, answer = vendor.preset, classified.answer
    try:
        document = bodies.read(preset.body, reply)
    except bodies.Unreadable:
        return
    rule = preset.rules[classified.rule - 1] if classified.rule else None
    if rule is None or (expect and expect.outcome not in (rule.outcome, classified.outcome)):
        for number, each in enumerate(preset.rules, start=1):
            if each.when is None or (each.status and reply.status not in each.status):
                continue
            given, fits = _given(each.when, document, bool)
            if not fits or expect is None or each.outcome == expect.outcome:
                yield f"outcome[{number}].when gives {given}"
    if rule is None or rule.outcome != "found":
        return
    known = answer.known() if isinstance(answer, Found) else {}
    unreadable = answer.unreadable if isinstance(answer, Found) else FIELDS if isinstance(answer, Failed) else ()
    for field in FIELDS:
        differs = expect is not None and getattr(expect, field) != known.get(field)
        for key, expression in _expressions(preset.fields, field) if differs or field in unreadable else ():
            given, fits = _given(expression, document, bool if field == "spam" else str)
            if differs or not fits:
                yield f"fields.{key} gives {given}"


def _expressions(fields: Fields, field: str) -> Iterator[tuple[str, Expression]]:
    """Those of one field, with their keys under [fields]."""
    listed = {field: getattr(fields, field)} if field != "spam" else {}
    if field == "spam" and fields.spam:
        if fields.spam.never:
            yield "spam.never", fields.spam.never
        listed = {"spam.yes": fields.spam.yes, "spam.known": fields.spam.known}
    for key, expressions in listed.items():
        yield from ((f"{key}[{number}]", each) for number, each in enumerate(expressions, start=1))


def _given(expression: Expression, document: Any, wanted: type) -> tuple[str, bool]:
    """What the expression gives, and whether it may be that: null, `wanted`, or for text a list of both."""
    try:
        value = expression(document)
    except UnexpectedShape as error:
        return f"an error ({' '.join(str(error.__cause__).split())[:200]})", False
    items = value if wanted is str and isinstance(value, list) else [value]
    shown = json.dumps(value, ensure_ascii=False)
    shown = shown if len(shown) <= 80 else f"{shown[:79]}…"
    if all(item is None or isinstance(item, wanted) for item in items):
        return shown, True
    return f"{shown}, {'not text' if wanted is str else 'neither true, false nor null'}", False


def _problems(vendor: JsonApi, sample: Sample, reply: transport.Reply, classified: Classification) -> Iterator[str]:
    expect, answer = sample.expect, classified.answer
    if sample.number and not vendor.covers(sample.number):
        yield f"{sample.number} is outside the preset's coverage"
    elif sample.number and sample.request:
        sent = vendor.request(sample.number)
        line = f"{sent.method} {sent.url.replace(SECRET, '')}"
        if line != sample.request:
            yield f"sends {line} instead of {sample.request}"
            if SECRET in sent.url:
                yield "write `request` without the values of secrets, as in ?key=&number=1"
    if classified.outcome != expect.outcome:
        yield f"expected {expect.outcome}, got {classified.outcome}"
    known = answer.known() if isinstance(answer, Found) else {}
    expected = {field: value for field in FIELDS if (value := getattr(expect, field)) is not None}
    if known != expected:
        yield f"expected {expected}, got {known}"
    if classified.outcome != expect.outcome or known != expected:
        yield from explained(vendor, reply, classified, expect)
    if classified.not_boolean and isinstance(answer, Failed):
        yield f"fails: {answer.hint}"
