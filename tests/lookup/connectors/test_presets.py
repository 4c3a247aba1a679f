"""Every shipped preset reads its vendor's documented answers as documented, and junk as no answer."""

import json
import re
from pathlib import Path

import pytest

from lookup.answers import Failed
from lookup.connectors import preset, samples
from lookup.connectors.transport import Reply
from tests.plugin import ROOT

FILES = sorted(preset.SHIPPED.glob("*.toml"))
JUNK = [
    b"",
    b" ",
    b"null",
    b"{}",
    b'"text"',
    b"5",
    b"true",
    b"[[]]",
    b"[5]",
    b"{",
    b"\xff\xfe",
    b"NaN",
    b"<html><body>Sign in</body></html>",
    b"[" * 60_000,
    b'{"a":' * 10_000 + b"1" + b"}" * 10_000,
]


@pytest.fixture(params=FILES, ids=[file.stem for file in FILES])
def shipped(request: pytest.FixtureRequest) -> preset.Preset:
    file: Path = request.param
    return preset.load(file)


def test_its_samples_are_read_as_they_are_documented(shipped: preset.Preset) -> None:
    problems = {result.sample.title: result.problems for result in samples.run(shipped) if result.problems}
    assert problems == {}


def test_its_samples_have_titles_of_their_own_and_one_shows_the_request(shipped: preset.Preset) -> None:
    titles = [sample.title for sample in shipped.sample]
    assert len(set(titles)) == len(titles)
    assert any(sample.request for sample in shipped.sample)


def test_the_worked_example_of_the_docs_is_a_preset_that_reads_its_samples(tmp_path: Path) -> None:
    (example,) = re.findall(r"```toml\n(.*?)```", (ROOT / "docs" / "presets.md").read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "acme.toml").write_text(example, encoding="utf-8")
    assert [result.problems for result in samples.run(preset.load(tmp_path / "acme.toml"))] == [()] * 3


@pytest.mark.parametrize("body", JUNK, ids=[repr(body[:12]) for body in JUNK])
@pytest.mark.parametrize("status", [200, 204, 206])
def test_junk_is_never_taken_for_nobody_knows(shipped: preset.Preset, status: int, body: bytes) -> None:
    if shipped.body == "text" and status == 200:
        pytest.skip("any text is an answer of an API that speaks in plain text")
    outcome, answer = samples.connector(shipped).judge(Reply(status, {}, body))
    assert (outcome, type(answer)) == ("bad_response", Failed)


@pytest.mark.parametrize(
    ("status", "outcomes"),
    [
        (301, {"bad_response"}),
        (400, {"bad_response", "invalid_number"}),
        (401, {"auth"}),
        (402, {"quota"}),
        (403, {"auth"}),
        (418, {"bad_response"}),
        (429, {"rate_limited", "quota"}),
        (500, {"unavailable"}),
        (502, {"unavailable"}),
        (503, {"unavailable", "rate_limited"}),
    ],
)
def test_a_status_means_what_http_says_whatever_the_body(
    shipped: preset.Preset, status: int, outcomes: set[str]
) -> None:
    for body in (b"", b"{}", b"<html>", b"[]"):
        outcome, _ = samples.connector(shipped).judge(Reply(status, {}, body))
        assert outcome in outcomes


def test_types_that_no_vendor_documents_break_nothing(shipped: preset.Preset) -> None:
    """Every leaf of every sample replaced by every other kind of value: an answer or a failure, never an exception."""
    vendor = samples.connector(shipped)
    for sample in shipped.sample:
        try:
            document = json.loads(sample.body)
        except ValueError:
            continue
        for changed in _mutations(document):
            vendor.judge(Reply(sample.status, sample.headers, json.dumps(changed).encode()))


def _mutations(document: object) -> list[object]:
    values: list[object] = [None, 5, -1.5, "x", True, [], {}, [None], {"a": None}]
    if isinstance(document, dict):
        inner = [{**document, key: new} for key, value in document.items() for new in _mutations(value)]
        return [*inner, *({k: v for k, v in document.items() if k != key} for key in document), *values]
    if isinstance(document, list):
        inner_list = [
            [*document[:i], new, *document[i + 1 :]] for i, value in enumerate(document) for new in _mutations(value)
        ]
        return [*inner_list, *values]
    return values
