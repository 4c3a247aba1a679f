"""`evaluate_sources`: sources are asked about numbers whose truth is known."""

import gzip
import io
import json
import os
import re
import signal
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from hypothesis import given
from hypothesis import strategies as st

from contrib.evaluation.services import Result, Truth, figures
from lookup.answers import Failed, Found, NotFound
from lookup.connectors import registry
from phonebook.models import ComplaintDay, Contact
from tests import connectors, upstream
from tests.mock_vendors import PRESETS, Vendors

pytestmark = pytest.mark.django_db

#: Reserved for fiction.
SPAM = [f"120255501{n:02}" for n in range(10)]
HAM = [f"120255501{n:02}" for n in range(10, 20)]
#: 8 of 10 true verdicts "spam", 1 false one; 6 true verdicts "no spam", 1 false one; 4 numbers unknown.
SAYS = dict.fromkeys((*SPAM[:8], HAM[0]), 7) | dict.fromkeys((SPAM[8], *HAM[1:7]), 0)
PHONE = re.compile(rb"120255501[0-9]{2}")


def scores(scores: Mapping[str, int], failing: frozenset[str] = frozenset(), status: int = 503) -> upstream.Behaviour:
    """A vendor for slot B that knows these numbers."""

    def behave(conversation: upstream.Conversation) -> bool:
        number = PHONE.findall(conversation.body)[0].decode()
        known = {"name": f"Caller {number[-2:]}", "score": scores[number]} if number in scores else {"known": False}
        behaviour = upstream.raw(b"", status) if number in failing else upstream.says(known)
        return behaviour(conversation)

    return behave


@pytest.fixture
def vendor_b(vendors: Vendors, settings: Any) -> upstream.Upstream:
    settings.SOURCE_A, settings.SOURCE_B_PRICE = "directory", {"mock_b": Decimal("0.01")}
    vendors.b.behave_as(scores(SAYS))
    return vendors.b


@pytest.fixture
def file(tmp_path: Path) -> Path:
    lines = [*(f"{number},yes" for number in SPAM), *(f"{number},no" for number in HAM)]
    path = tmp_path / "truths.csv"
    path.write_text("\n".join(["number,spam", *lines, ""]), encoding="utf-8")
    return path


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[str, str, str]:
    """The command's stdout, stderr and error."""
    failed = ""
    try:
        call_command("evaluate_sources", *map(str, arguments))
    except CommandError as error:
        failed = str(error)
    written = capsys.readouterr()
    return written.out, written.err, failed


def evaluated(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    out, _, failed = run(capsys, *arguments, "--json")
    assert failed == ""
    shown: dict[str, Any] = json.loads(out)
    return shown


def test_figures_are_those_of_the_confusion_matrix(
    vendor_b: upstream.Upstream, file: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    shown = evaluated(capsys, file)
    assert (shown["numbers"], shown["spam"]) == (20, 10)
    mock_b = shown["sources"]["mock_b"]
    assert mock_b.pop("p95_ms") >= mock_b.pop("p50_ms") > 0
    expected = {"known": 0.8, "precision": 0.8889, "recall": 0.8, "agreement": 0.875, "names": None, "failures": 0}
    assert mock_b == {**expected, "called": 20, "cost": "0.010000"}
    assert shown["slots"]["source_b"].items() >= expected.items()
    directory = shown["sources"]["directory"]
    assert (directory["known"], directory["precision"], directory["recall"], directory["cost"]) == (0, None, 0, "0")
    assert len(vendor_b.bodies) == 20
    assert not PHONE.search(caplog.text.encode())


def test_table_has_a_dash_for_what_is_undefined(
    vendor_b: upstream.Upstream, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    packed = tmp_path / "truths.csv.gz"
    packed.write_bytes(gzip.compress(f"name;Spam;Number\n;no;+1 (202) 555-01{HAM[1][-2:]}\n".encode()))
    out, _, failed = run(capsys, packed)
    first, header, *rows = out.splitlines()
    assert (first, failed) == ("Numbers: 1. Spam: 0.", "")
    assert re.split(r"\s{2,}", header)[:8] == [
        *("SOURCE OR SLOT", "CALLED", "KNOWN", "PRECISION", "RECALL", "AGREEMENT", "NAMES", "FAILURES"),
    ]
    assert [row.split()[:9] for row in rows] == [
        ["directory", "1", "0.0%", "-", "-", "-", "-", "0", "0"],
        ["mock_b", "1", "100.0%", "-", "-", "100.0%", "-", "0", "0.010000"],
        ["source_a", "1", "0.0%", "-", "-", "-", "-", "0", "0"],
        ["source_b", "1", "100.0%", "-", "-", "100.0%", "-", "0", "0.010000"],
    ]


def test_slot_is_combined_as_in_a_search(
    vendor_b: upstream.Upstream, settings: Any, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings.SOURCE_B, settings.COMPLAINT_THRESHOLD = "complaints,mock_b", 1
    for number in (SPAM[9], HAM[9]):  # the second is a false verdict
        ComplaintDay.objects.create(number=int(number), source="test", day=datetime.now(UTC).date(), total=5)
    vendor_b.behave_as(scores(SAYS, failing=frozenset({SPAM[9], SPAM[8]})))
    out, _, failed = run(capsys, file, "--json")
    shown = json.loads(out)
    complaints, mock_b, slot = *map(shown["sources"].get, ("complaints", "mock_b")), shown["slots"]["source_b"]
    assert (complaints["known"], complaints["precision"], complaints["recall"]) == (0.1, 0.5, 0.1)
    assert (mock_b["called"], mock_b["failures"], mock_b["recall"]) == (20, 2, 0.8)
    assert (slot["known"], slot["precision"], slot["recall"]) == (0.85, 0.8182, 0.9)
    # For a number that `complaints` knows, the vendor is called for the name.
    assert (slot["failures"], slot["cost"]) == (1, "0.010000")
    assert failed == "Unusable lines: 0. Failed calls: 2."


def test_refused_call_costs_nothing(
    vendor_b: upstream.Upstream, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    vendor_b.behave_as(scores(SAYS, failing=frozenset(SPAM), status=401))
    shown = json.loads(run(capsys, file, "--json")[0])
    for figures_of in (shown["sources"]["mock_b"], shown["slots"]["source_b"]):
        assert (figures_of["called"], figures_of["failures"], figures_of["cost"]) == (20, 10, "0.005000")


def test_agreement_of_names(
    vendor_b: upstream.Upstream, settings: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Contact.objects.create(number=int(SPAM[0]), name="Example Bakery")
    file = tmp_path / "truths.csv"
    file.write_text(f"number,spam,name\n{SPAM[0]},1,CALLER  00\n{SPAM[1]},0,Another\n{SPAM[2]},TRUE,\n", "utf-8")
    shown = evaluated(capsys, file)
    names = {name: figures["names"] for name, figures in (shown["sources"] | shown["slots"]).items()}
    assert names == {"directory": 0, "mock_b": 0.5, "source_a": 0, "source_b": 0.5}


def test_number_outside_the_coverage_is_not_called(
    vendor_b: upstream.Upstream, settings: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (PRESETS / "mock_b.toml").read_text(encoding="utf-8")
    (tmp_path / "mock_b.toml").write_text(text + '\n[coverage]\nregions = ["US"]\n', encoding="utf-8")
    settings.PRESET_DIR = str(tmp_path)
    file = tmp_path / "truths.csv"
    file.write_text(f"number,spam\n{SPAM[0]},yes\n493023125042,yes\n", encoding="utf-8")
    mock_b = evaluated(capsys, file)["sources"]["mock_b"]
    assert (mock_b["called"], mock_b["known"], mock_b["recall"], mock_b["cost"]) == (1, 0.5, 0.5, "0.005000")
    assert len(vendor_b.bodies) == 1


def test_lines_that_cannot_be_used_are_listed(
    vendor_b: upstream.Upstream, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = ["12025550100,yes", "12025550101,perhaps", "030 1234567,no", "12025550102,yes", "+1 202 555 0102,no"]
    lines += ["12025550100,true", '"12025550103,yes', "12025550104,no"]
    text = "\n".join(["number,spam", *lines, ""]).encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(text))))
    out, err, failed = run(capsys, "-", "--json")
    assert err.splitlines() == [
        "<stdin>:3: 1********01: spam must be yes or no, true or false, 1 or 0",
        "<stdin>:4: invalid phone number (must start with a country code)",
        "<stdin>:6: 1********02: contradicts an earlier line: the number does not count",
        "<stdin>:8: unclosed quotation mark",
    ]
    assert failed == "Unusable lines: 4. Failed calls: 0."
    assert (json.loads(out)["numbers"], len(vendor_b.bodies)) == (2, 2)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("number,verdict\n1,2\n", "the first line must name the columns number and spam."),
        ("number,spam\n", "no line can be used."),
        ("", "the file is empty; its first line must name the columns."),
        (None, "No such file or directory."),
    ],
)
def test_unusable_file_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str | None, told: str
) -> None:
    path = tmp_path / "truths.csv"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    assert run(capsys, path)[2] == f"{path}: {told}"


def test_unknown_source_is_an_error(settings: Any, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings.SOURCE_A = "nobody"
    assert "there is no source 'nobody'" in run(capsys, file)[2]


def test_source_that_is_down_fails_for_each_number(
    vendor_b: upstream.Upstream, file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOCK_B_BASE_URL", "http://127.0.0.1:1")  # nothing listens there
    out, _, failed = run(capsys, file, "--json")
    mock_b = json.loads(out)["sources"]["mock_b"]
    assert (mock_b["called"], mock_b["failures"], mock_b["precision"], mock_b["recall"]) == (20, 20, None, 0)
    assert failed == "Unusable lines: 0. Failed calls: 20."


def test_answer_later_than_a_search_waits_is_a_failure(
    vendor_b: upstream.Upstream, settings: Any, file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(f"number,spam\n{SPAM[0]},yes\n", encoding="utf-8")
    settings.SEARCH_DEADLINE_S = 0.2
    vendor_b.behave_as(upstream.slow(0.3, scores(SAYS)))
    for _ in range(2):  # it was billed, and is not asked again
        shown = evaluated(capsys, file, "--results", tmp_path / "results.jsonl")
        assert [shown[kind][name]["failures"] for kind, name in (("sources", "mock_b"), ("slots", "source_b"))] == [
            1,
            1,
        ]
        assert shown["sources"]["mock_b"]["known"] == 0
    assert len(vendor_b.bodies) == 1


def test_field_that_cannot_be_read_is_a_failure(
    vendor_b: upstream.Upstream, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file.write_text(f"number,spam\n{SPAM[0]},yes\n", encoding="utf-8")
    vendor_b.behave_as(upstream.says({"name": "Example Bakery", "score": "many"}))
    out, _, failed = run(capsys, file, "--json")
    assert json.loads(out)["sources"]["mock_b"]["failures"] == 1
    assert failed == "Unusable lines: 0. Failed calls: 1."


def test_local_class_in_a_thread_is_asked(settings: Any, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings.SOURCE_A = settings.SOURCE_B = f"{connectors.__name__}.Knows"
    connectors.Knows.calls.clear()
    knows = evaluated(capsys, file)["sources"][settings.SOURCE_A]
    assert (knows["known"], knows["agreement"], knows["cost"]) == (1, 0.5, "0")
    assert sorted(connectors.Knows.calls) == [*SPAM, *HAM]


# --- Concurrency and resumption ---------------------------------------------------------------------------------------


def test_calls_run_with_the_concurrency_of_the_source(
    vendor_b: upstream.Upstream, settings: Any, file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (PRESETS / "mock_b.toml").read_text(encoding="utf-8")
    (tmp_path / "mock_b.toml").write_text(text + "\n[budget]\nconcurrency = 3\n", encoding="utf-8")
    settings.PRESET_DIR = str(tmp_path)
    vendor_b.behave_as(upstream.slow(0.02, scores(SAYS)))
    evaluated(capsys, file)
    assert (vendor_b.connections, len(vendor_b.bodies)) == (3, 20)


def test_second_run_asks_only_what_failed_or_is_missing(
    vendor_b: upstream.Upstream, file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = tmp_path / "results.jsonl"
    vendor_b.behave_as(scores(SAYS, failing=frozenset({SPAM[3], HAM[3]})))
    assert run(capsys, file, "--results", results)[2] == "Unusable lines: 0. Failed calls: 2."
    text = results.read_bytes()
    assert not PHONE.search(text)
    assert b"Caller" not in text
    assert results.stat().st_mode & 0o777 == 0o600
    vendor_b.behave_as(scores(SAYS))
    file.write_text(file.read_text(encoding="utf-8") + "12025550199,no\n", encoding="utf-8")
    plan = json.loads(run(capsys, file, "--results", results, "--dry-run", "--json")[0])
    assert plan["sources"][1] == {"source": "mock_b", "calls": 3, "cost": "0.03"}
    resumed = evaluated(capsys, file, "--results", results)
    assert len(vendor_b.bodies) == 20 + 3
    whole = evaluated(capsys, file)
    for shown in (resumed, whole):
        for each in (shown["sources"] | shown["slots"]).values():
            del each["p50_ms"], each["p95_ms"]
    assert resumed == whole


def test_interrupt_keeps_the_answers_of_calls_in_flight(
    vendor_b: upstream.Upstream, file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = tmp_path / "results.jsonl"
    known = scores(SAYS)

    def interrupts(conversation: upstream.Conversation) -> bool:
        if len(vendor_b.bodies) == 1:
            os.kill(os.getpid(), signal.SIGINT)
        return upstream.slow(0.5, known)(conversation)

    vendor_b.behave_as(interrupts)
    out, _, failed = run(capsys, file, "--results", results)
    assert out == ""
    assert re.fullmatch(r"Interrupted after [0-9]+ of 40 calls\. Run it again for the rest\.", failed)
    asked = len(vendor_b.bodies)
    assert asked < 20
    assert results.read_bytes().count(b"mock_b") == asked
    vendor_b.behave_as(known)
    evaluated(capsys, file, "--results", results)
    assert len(vendor_b.bodies) == 20
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("left", [3, 40])
def test_line_that_a_killed_process_left_is_ignored(
    vendor_b: upstream.Upstream, file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], left: int
) -> None:
    results = tmp_path / "results.jsonl"
    evaluated(capsys, file, "--results", results)
    *complete, last = sorted(results.read_bytes().splitlines(keepends=True))
    assert b"mock_b" in last
    results.write_bytes(b"".join(complete) + last[:left])
    evaluated(capsys, file, "--results", results)
    evaluated(capsys, file, "--results", results)
    assert len(vendor_b.bodies) == 21


def test_edited_preset_is_asked_again(
    vendor_b: upstream.Upstream, settings: Any, file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evaluated(capsys, file, "--results", tmp_path / "results.jsonl")
    text = (PRESETS / "mock_b.toml").read_text(encoding="utf-8")
    (tmp_path / "mock_b.toml").write_text(text.replace("score >= `5`", "score >= `6`"), encoding="utf-8")
    settings.PRESET_DIR = str(tmp_path)
    registry.reset()
    evaluated(capsys, file, "--results", tmp_path / "results.jsonl")
    assert len(vendor_b.bodies) == 40


def test_other_file_is_not_taken_for_results(
    vendor_b: upstream.Upstream, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = file.read_bytes()
    assert run(capsys, file, "--results", file)[2] == f"{file}: line 1 is no result of evaluate_sources."
    assert run(capsys, file, "--results", file.parent)[2] == f"{file.parent}: Is a directory."
    assert (file.read_bytes(), vendor_b.bodies) == (before, [])


def test_dry_run_makes_no_call(
    vendor_b: upstream.Upstream, settings: Any, file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings.SOURCE_A, results = "directory,mock_a", tmp_path / "results.jsonl"
    out, _, failed = run(capsys, file, "--dry-run", "--results", results)
    assert [line.split() for line in out.splitlines()[1:]] == [
        ["directory", "20", "0"],
        ["mock_a", "20", "-"],
        ["mock_b", "20", "0.20"],
    ]
    assert (failed, vendor_b.bodies, results.exists()) == ("", [], False)


# --- Figures ----------------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.booleans(), st.sampled_from([True, False, None, "failed"])), min_size=1))
def test_shares_are_those_of_a_reference(pairs: list[tuple[bool, Any]]) -> None:
    def answer(verdict: Any) -> Any:
        return Failed("x") if verdict == "failed" else NotFound() if verdict is None else Found(spam=verdict)

    def share(part: int, of: int) -> float | None:
        return round(float(Fraction(part, of)), 4) if of else None

    true_positive, false_positive = pairs.count((True, True)), pairs.count((False, True))
    true_negative, false_negative = pairs.count((False, False)), pairs.count((True, False))
    known = true_positive + false_positive + true_negative + false_negative
    found = figures([Result(Truth(truth), answer(verdict)) for truth, verdict in pairs])
    assert found.known == share(known, len(pairs))
    assert found.precision == share(true_positive, true_positive + false_positive)
    assert found.recall == share(true_positive, sum(truth for truth, _ in pairs))
    assert found.agreement == share(true_positive + true_negative, known)
    assert found.failures == sum(verdict == "failed" for _, verdict in pairs)


def test_percentiles_are_durations_that_were_measured() -> None:
    found = figures([Result(Truth(spam=True), ms=float(ms)) for ms in range(100, 0, -1)])
    assert (found.p50_ms, found.p95_ms, found.called) == (50, 95, 100)


def test_cost_is_unknown_without_a_price() -> None:
    assert figures([Result(Truth(spam=True), cost=None), Result(Truth(spam=True))]).cost is None
