"""`check_sources`, `lookup`, and the system checks of sources."""

import io
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from django.core.checks import run_checks
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError, call_command

from accounts.models import CreditEntry
from lookup.connectors import registry
from phonebook.models import Contact
from tests import connectors, upstream
from tests.api import NUMBER
from tests.counted import counted_calls
from tests.mock_vendors import KEYS, PRESETS, Vendors

pytestmark = pytest.mark.django_db


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[str, str, str]:
    """The command's stdout, stderr and error."""
    failed = ""
    try:
        call_command(*arguments)
    except CommandError as error:
        failed = str(error)
    written = capsys.readouterr()
    return written.out, written.err, failed


# --- check_sources --------------------------------------------------------------------------------------------------


def test_every_configured_source_is_called(vendors: Vendors, settings: Any, capsys: pytest.CaptureFixture[str]) -> None:
    settings.SOURCE_A = "directory,mock_a"
    vendors.b.behave_as(upstream.raw(b"", 401))
    out, _, failed = run(capsys, "check_sources")
    lines = [line.split(maxsplit=4) for line in out.splitlines()]
    assert lines[0] == ["SLOT", "SOURCE", "OUTCOME", "MS", "ANSWER, OR WHAT TO FIX"]
    assert lines[1][:4] == ["source_a", "directory", "not", "found"]
    assert lines[2][:3] == ["source_a", "mock_a", "found"]
    assert lines[2][4] == "name=Example Bakery, location=Springfield, IL"
    assert (lines[3][:3], lines[3][4]) == (["source_b", "mock_b", "auth"], "401: MOCK_B_KEY is rejected")
    assert failed == "1 of 3 failed."
    assert not any(key in out for key in KEYS.values())


def test_cache_and_circuit_breaker_are_not_used(vendors: Vendors, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        assert run(capsys, "check_sources", "--number", f"+{NUMBER}")[2] == ""
    assert (len(vendors.a.heads), len(vendors.b.heads)) == (2, 2)
    assert b"%2B" + NUMBER.encode() in vendors.a.heads[0]


def test_source_of_both_slots_is_called_once(
    vendors: Vendors, settings: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    settings.SOURCE_A = "mock_b"
    out, _, _ = run(capsys, "check_sources")
    assert out.count("name=Example Sweepstakes") == 2
    assert len(vendors.b.heads) == 1


def test_source_slower_than_the_deadline_fails(
    vendors: Vendors, settings: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    settings.SEARCH_DEADLINE_S = 0.5
    vendors.a.behave_as(upstream.slow(0.6, upstream.says(upstream.GOOD_A)))
    out, _, failed = run(capsys, "check_sources", "--json")
    first = json.loads(out.splitlines()[0])
    assert (first["ok"], first["answer"]["name"]) == (False, "Example Bakery")
    assert first["fix"] == "too slow: a search waits 0.5 s"
    assert failed == "1 of 2 failed."


def test_source_that_does_not_cover_the_number_is_not_called(
    vendors: Vendors, settings: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    text = (PRESETS / "mock_a.toml").read_text(encoding="utf-8")
    (tmp_path / "mock_a.toml").write_text(text + '\n[coverage]\nregions = ["DE"]\n', encoding="utf-8")
    settings.PRESET_DIR, settings.SOURCE_B = str(tmp_path), "complaints"
    out, _, failed = run(capsys, "check_sources")
    assert "not covered" in out
    assert "use ./run manage check_sources --number NUMBER" in out
    assert (failed, vendors.a.heads) == ("", [])


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--number", "x"], "--number: invalid phone number (must contain only digits)."),
        ([], "SOURCE_A: there is no source 'nobody'. Built in: complaints, directory, geography. Presets: "),
    ],
)
def test_invalid_number_or_source_is_reported(
    settings: Any, capsys: pytest.CaptureFixture[str], arguments: list[str], told: str
) -> None:
    settings.SOURCE_A = "nobody"
    assert told in run(capsys, "check_sources", *arguments)[2]


# --- lookup ---------------------------------------------------------------------------------------------------------


def test_numbers_are_looked_up_without_a_charge(
    vendors: Vendors, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = counted_calls(monkeypatch)
    out, _, failed = run(capsys, "lookup", "+49 30 23125-042", "12025550123")
    lines = out.splitlines()
    assert (lines[0], lines[3], failed) == (NUMBER, "12025550123", "")
    assert lines[1].split(maxsplit=4)[:2] == ["source_a", "found"]
    assert lines[1].endswith("ms  name=Example Bakery, location=Springfield, IL")
    assert lines[2].endswith("ms  name=Example Sweepstakes, spam=yes")
    assert sorted(call.connector for _, call in counted) == ["mock_a", "mock_a", "mock_b", "mock_b"]
    assert not CreditEntry.objects.exists()


def test_file_is_looked_up_and_invalid_lines_are_reported(
    settings: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    settings.SOURCE_A = "directory"
    Contact.objects.create(number=int(NUMBER), name="Example Bakery")
    file = tmp_path / "numbers.txt"
    file.write_text(f"\ufeff# ours\n{NUMBER}  # the bakery\n\n030 12345\n+49 30 23125043\n", encoding="utf-8")
    out, err, failed = run(capsys, "lookup", "--file", str(file), "--json")
    assert [json.loads(line) for line in out.splitlines()] == [
        {
            "phone_number": number,
            "source_a": known,
            "source_b": {},
            "rule": None,
            "combined": {"source_a_available": bool(known), "source_b_available": False},
            "outcomes": {"source_a": "found" if known else "not-found", "source_b": "not-found"},
        }
        for number, known in ((NUMBER, {"name": "Example Bakery"}), ("493023125043", {}))
    ]
    assert err == f"{file}:4: invalid phone number (must start with a country code)\n"
    assert failed == "Of 3: 1 invalid, 0 failed in both slots."


@pytest.mark.parametrize("begin", ["", "\ufeff", "\ufeff# ours\n", "\u00a0"])
def test_standard_input_is_read(capsys: pytest.CaptureFixture[str], monkeypatch: Any, begin: str) -> None:
    """With a byte order mark too: browser-use/browser-harness#433."""
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{begin}{NUMBER}\nx\n"))
    out, err, _ = run(capsys, "lookup", "--file", "-")
    assert out.startswith(NUMBER)
    line = 2 + begin.count("\n")
    assert err == f"<stdin>:{line}: invalid phone number (must contain only digits)\n"


def test_command_fails_if_both_sources_fail(vendors: Vendors, capsys: pytest.CaptureFixture[str]) -> None:
    vendors.a.behave_as(upstream.raw(b"", 500))
    vendors.b.behave_as(upstream.raw(b"", 500))
    out, _, failed = run(capsys, "lookup", NUMBER)
    assert out.count("failed") == 2
    assert failed == "Of 1: 0 invalid, 1 failed in both slots."


@pytest.mark.parametrize("arguments", [[], ["--file", "/nowhere/numbers.txt"]])
def test_nothing_to_look_up_is_an_error(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    failed = run(capsys, "lookup", *arguments)[2]
    assert failed in (
        "Nothing to look up: give numbers, or --file FILE.",
        "/nowhere/numbers.txt: No such file or directory.",
    )


# --- System checks --------------------------------------------------------------------------------------------------


class NeverCached(connectors.RemoteKnows):
    """The failing sequence: its first answer is never forgotten, because caching it raises TypeError."""

    hit_ttl_s = None  # type: ignore[assignment]


class NoWait(connectors.RemoteKnows):
    """The failing sequence: no search waited for it, and a call could take the whole deadline without a failure."""

    max_wait_s = 0


class NeedsVariable(connectors.RemoteKnows):
    def __init__(self) -> None:
        self.url = os.environ["SWITCHBOARD_URL"]


class NeedsKey(connectors.RemoteKnows):
    def __init__(self) -> None:
        names: dict[str, str] = {}
        self.url = names["A_PRIVATE_NAME"]


class SaysWhatItNeeds(connectors.RemoteKnows):
    def __init__(self) -> None:
        raise ImproperlyConfigured("Set SWITCHBOARD_URL to the address of the switchboard.")


OWN = f"{__name__}."


def checks() -> list[tuple[str, str]]:
    """Message and hint of each."""
    return [(message.msg, message.hint or "") for message in run_checks() if message.id == "lookup.E001"]


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("directory,nowhere", "there is no source 'nowhere'"),
        ("directory,,geography", "SOURCE_A must name a source"),
        ("no.such.Thing", "cannot be imported"),
        ("json.JSONDecoder", "not a lookup.connectors.base.Connector"),
        ("directory,directory", "SOURCE_A names 'directory' twice."),
        ("complaints", "SOURCE_A: 'complaints' supplies only spam, but this slot has location and name."),
        (f"{OWN}NeverCached", f"SOURCE_A: {OWN}NeverCached.hit_ttl_s must be a number of seconds, at least 0."),
        (f"{OWN}NoWait", f"SOURCE_A: {OWN}NoWait.max_wait_s must be a number of seconds above 0, or None."),
        (f"{OWN}NeedsKey", f"SOURCE_A: '{OWN}NeedsKey' cannot be created: KeyError."),
        (f"{OWN}SaysWhatItNeeds", "cannot be created: Set SWITCHBOARD_URL to the address of the switchboard."),
    ],
)
def test_source_that_cannot_be_bound_is_a_check(
    settings: Any, monkeypatch: pytest.MonkeyPatch, source: str, told: str
) -> None:
    monkeypatch.setenv("A_PRIVATE_NAME", "")  # so that a KeyError of this name is not about the environment
    settings.SOURCE_A = source
    ((message, hint),) = checks()
    assert told in message
    assert hint == "Correct SOURCE_A in the environment."


@pytest.mark.parametrize(
    ("source", "told", "variable"),
    [
        ("directory,twilio", "", "TWILIO_ACCOUNT_SID"),
        (f"{OWN}NeedsVariable", "needs SWITCHBOARD_URL, which the environment does not set.", "SWITCHBOARD_URL"),
    ],
)
def test_missing_variable_is_a_check_that_names_it(settings: Any, source: str, told: str, variable: str) -> None:
    settings.SOURCE_A = source
    ((message, hint),) = checks()
    assert message.startswith("SOURCE_A: ")
    assert told in message
    assert hint.startswith(f"Set {variable}")


def test_invalid_preset_is_a_check_with_its_file_and_key(mine: Any, settings: Any) -> None:
    file = mine(("{e164}", "{e16}"))
    settings.SOURCE_A = "mine"
    ((message, hint),) = checks()
    assert message.startswith("SOURCE_A: mine.toml: request.url: {e16} is none of")
    assert hint == f"Correct request.url in {file}; docs/presets.md describes every key."


def test_operators_preset_overrides_the_shipped_one(settings: Any, tmp_path: Path) -> None:
    shutil.copy(registry.presets()["twilio"], tmp_path)
    settings.PRESET_DIR = str(tmp_path)
    assert registry.presets()["twilio"] == tmp_path / "twilio.toml"


def test_no_check_fails_if_everything_is_set(vendors: Vendors) -> None:
    assert checks() == []
