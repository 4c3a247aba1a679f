"""`check_sources`, `lookup`, `list_presets`, and the system checks of sources."""

import io
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from django.core.checks import ERROR, WARNING, run_checks
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError, call_command

from accounts.models import CreditEntry
from lookup.connectors import registry
from lookup.vendors import preset
from phonebook.models import Contact
from tests import connectors, upstream
from tests.api import NUMBER
from tests.counted import counted_calls
from tests.mock_vendors import KEYS, PRESETS, Vendors
from tests.plugin import ROOT

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
    assert (lines[2][:3], lines[2][4]) == (
        ["source_a", "mock_a", "found"],
        "name=Example Bakery, location=Springfield, IL",
    )
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
    settings.SEARCH_DEADLINE_S = 0.05
    vendors.a.behave_as(upstream.slow(0.1, upstream.says(upstream.GOOD_A)))
    out, _, failed = run(capsys, "check_sources", "--json")
    first = json.loads(out.splitlines()[0])
    assert (first["ok"], first["answer"]["name"], first["fix"]) == (
        False,
        "Example Bakery",
        "too slow: a search waits 0.05 s",
    )
    assert failed == "1 of 2 failed."


def test_source_that_does_not_cover_the_number_is_not_called(
    vendors: Vendors, settings: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    text = (PRESETS / "mock_a.toml").read_text(encoding="utf-8")
    (tmp_path / "mock_a.toml").write_text(text + '\n[coverage]\nregions = ["DE"]\n', encoding="utf-8")
    settings.PRESET_DIR, settings.SOURCE_B = str(tmp_path), "complaints"
    out, _, failed = run(capsys, "check_sources")
    assert "not covered" in out
    assert "use check_sources --number" in out
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


def test_samples_of_all_presets_run_offline(vendors: Vendors, capsys: pytest.CaptureFixture[str]) -> None:
    out, _, failed = run(capsys, "check_sources", "--samples", "--json")
    rows = [json.loads(line) for line in out.splitlines()]
    assert {row["preset"] for row in rows} == set(registry.presets())
    assert {"twilio", "mock_a", "mock_b"} <= {row["preset"] for row in rows}
    assert all(row["ok"] and row["samples"] >= 3 for row in rows)
    assert (failed, vendors.a.connections) == ("", 0)


def test_failing_sample_is_reported(settings: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    text = (PRESETS / "mock_a.toml").read_text(encoding="utf-8")
    wrong = text.replace('name = "Example Bakery", location', 'name = "Other Bakery", location')
    (tmp_path / "mine.toml").write_text(wrong.replace("MOCK_A_", "MINE_"), encoding="utf-8")
    (tmp_path / "broken.toml").write_text("title = 1", encoding="utf-8")
    settings.PRESET_DIR = str(tmp_path)
    out, _, failed = run(capsys, "check_sources", "--samples")
    mine = next(line for line in out.splitlines() if line.startswith("mine"))
    assert "'found' gives {'name': 'Example Bakery', 'location': 'Springfield, IL'} instead of" in mine
    assert next(line for line in out.splitlines() if line.startswith("broken")).split()[1] == "0"
    assert failed == f"2 of {len(registry.presets())} failed."


def test_preset_that_cannot_be_sent_is_reported(
    settings: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    text = (PRESETS / "mock_a.toml").read_text(encoding="utf-8").replace("MOCK_A_KEY", "SECRET_KEY")
    (tmp_path / "secret.toml").write_text(text, encoding="utf-8")
    settings.PRESET_DIR = str(tmp_path)
    out, _, failed = run(capsys, "check_sources", "--samples")
    line = next(line for line in out.splitlines() if line.startswith("secret"))
    assert "SECRET_KEY is a setting of the service itself." in line
    assert failed == f"1 of {len(registry.presets())} failed."


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
            "combined": {"source_a_available": bool(known), "source_b_available": False},
            "outcomes": {"source_a": "found" if known else "not-found", "source_b": "not-found"},
        }
        for number, known in ((NUMBER, {"name": "Example Bakery"}), ("493023125043", {}))
    ]
    assert err == f"{file}:4: invalid phone number (must start with a country code)\n"
    assert failed == "Of 3: 1 invalid, 0 failed in both sources."


def test_standard_input_is_read(
    settings: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{NUMBER}\nx\n"))
    out, err, _ = run(capsys, "lookup", "--file", "-")
    assert out.startswith(NUMBER)
    assert err == "<stdin>:2: invalid phone number (must contain only digits)\n"


def test_command_fails_if_both_sources_fail(vendors: Vendors, capsys: pytest.CaptureFixture[str]) -> None:
    vendors.a.behave_as(upstream.raw(b"", 500))
    vendors.b.behave_as(upstream.raw(b"", 500))
    out, _, failed = run(capsys, "lookup", NUMBER)
    assert out.count("failed") == 2
    assert failed == "Of 1: 0 invalid, 1 failed in both sources."


@pytest.mark.parametrize("arguments", [[], ["--file", "/nowhere/numbers.txt"]])
def test_nothing_to_look_up_is_an_error(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    failed = run(capsys, "lookup", *arguments)[2]
    assert failed in (
        "Nothing to look up: give numbers, or --file FILE.",
        "/nowhere/numbers.txt: No such file or directory.",
    )


# --- list_presets ---------------------------------------------------------------------------------------------------


def test_presets_are_listed_with_missing_keys(
    settings: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TWILIO_ACCOUNT_SID", "AC0")
    out, _, failed = run(capsys, "list_presets")
    line = next(line for line in out.splitlines() if line.startswith("twilio"))
    assert line.split("  ")[0] == "twilio"
    assert "missing: TWILIO_AUTH_TOKEN" in line
    assert "optional: FCC_APP_TOKEN" in out
    assert failed == ""
    rows = {row["preset"]: row for row in map(json.loads, run(capsys, "list_presets", "--json")[0].splitlines())}
    assert rows["twilio"]["keys"] == {"TWILIO_ACCOUNT_SID": True, "TWILIO_AUTH_TOKEN": False}


def test_vendors_page_is_current(settings: Any, capsys: pytest.CaptureFixture[str]) -> None:
    settings.PRESET_DIR = str(PRESETS)  # docs/vendors.md has only the shipped ones
    out, _, _ = run(capsys, "list_presets", "--markdown")
    assert (ROOT / "docs" / "vendors.md").read_text(encoding="utf-8") == out
    assert "mock_a" not in out


# --- System checks --------------------------------------------------------------------------------------------------


def checks(*ids: str) -> list[tuple[str, str, str]]:
    return [(str(m.id), m.msg, m.hint or "") for m in run_checks() if m.id in ids]


def test_missing_key_is_a_check_with_a_hint(settings: Any) -> None:
    settings.SOURCE_A = "directory,telnyx" if "telnyx" in registry.presets() else "twilio"
    (found,) = checks("lookup.E001", "lookup.E002", "lookup.E003")
    assert found[0] == "lookup.E003"
    assert found[1].startswith("SOURCE_A: ")
    assert found[2].startswith("Set ")


@pytest.fixture
def own_presets_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Checking the shipped presets takes most of a second, and other tests do it."""
    (tmp_path / "shipped").mkdir()
    monkeypatch.setattr(preset, "SHIPPED", tmp_path / "shipped")


@pytest.mark.usefixtures("own_presets_only")
def test_invalid_preset_is_a_check_with_its_file_and_key(settings: Any, tmp_path: Path) -> None:
    text = (PRESETS / "mock_a.toml").read_text(encoding="utf-8").replace("MOCK_A_", "MINE_")
    (tmp_path / "mine.toml").write_text(text.replace("{e164}", "{e16}"), encoding="utf-8")
    settings.PRESET_DIR, settings.SOURCE_A = str(tmp_path), "mine"
    (found,) = checks("lookup.E001", "lookup.E002", "lookup.E003")
    assert found[0] == "lookup.E002"
    assert found[1].startswith("mine.toml: request.url: {e16} is none of")
    assert found[2] == f"Correct request.url in {tmp_path / 'mine.toml'}; docs/presets.md describes every key."


FAULTS = {
    "not TOML": ("title = ", "title = = ", "002", "not TOML"),
    "a sample read otherwise": ('is = "not_found"', 'is = "quota"', "004", "it is quota instead of not_found."),
    "a when that is no truth value": ("known == `false`", "name", "004", "the preset's `when`: `name` is neither"),
    "a secret of the service's": ("MINE_KEY", "SECRET_KEY", "002", "must begin with MINE_"),
    "a request nobody can send": ("[request]", '[request]\nheaders = { A = "b\\nc" }', "002", "cannot be sent"),
}


@pytest.mark.usefixtures("own_presets_only")
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("bound", [True, False])
def test_invalid_preset_is_an_error_only_if_it_is_used(
    settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: str, bound: bool
) -> None:
    old, new, number, told = FAULTS[fault]
    text = (PRESETS / "mock_a.toml").read_text(encoding="utf-8").replace("MOCK_A_", "MINE_")
    assert old in text
    (tmp_path / "mine.toml").write_text(text.replace(old, new, 1), encoding="utf-8")
    monkeypatch.setenv("MINE_KEY", "k1")
    settings.PRESET_DIR, settings.SOURCE_A = str(tmp_path), "directory, mine" if bound else "directory"
    of_file = [message for message in run_checks() if message.obj == str(tmp_path / "mine.toml")]
    faults = [message for message in of_file if message.id not in ("lookup.W005", "lookup.I006")]
    assert [message.id for message in faults] == [f"lookup.{'E' if bound else 'W'}{number}"]
    assert [message.level for message in faults] == [ERROR if bound else WARNING]
    assert told in faults[0].msg
    if not bound:
        call_command("check")  # raises nothing, so no other command is stopped


def test_check_shows_where_a_status_alone_is_documented(
    settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (PRESETS / "mock_a.toml").read_text(encoding="utf-8").replace("MOCK_A_", "MINE_")
    note = "docs.example.com, page Errors"
    changed = text.replace('status_alone = "these tests"', f'status_alone = "{note}"')
    (tmp_path / "mine.toml").write_text(changed, encoding="utf-8")
    monkeypatch.setenv("MINE_KEY", "k1")
    settings.PRESET_DIR, settings.SOURCE_A = str(tmp_path), "mine"
    call_command("check")
    shown = "".join(capsys.readouterr())
    assert f"(lookup.I006) mine.toml: outcome[3]: 404 is not_found, whatever the body ({note})." in shown


def test_rule_that_no_sample_reaches_is_a_warning(
    settings: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (PRESETS / "mock_a.toml").read_text(encoding="utf-8").replace("MOCK_A_", "MINE_")
    (tmp_path / "mine.toml").write_text(text.replace("status = 404\n", "status = 410\n"), encoding="utf-8")
    monkeypatch.setenv("MINE_KEY", "k1")
    settings.PRESET_DIR, settings.SOURCE_A = str(tmp_path), "mine"
    text = (
        (tmp_path / "mine.toml")
        .read_text(encoding="utf-8")
        .replace(
            'status = 410\nexpect = { outcome = "not_found" }', 'status = 410\nexpect = { outcome = "bad_response" }'
        )
    )
    (tmp_path / "mine.toml").write_text(text, encoding="utf-8")
    told = "no sample reaches outcome 3 (counted from 1)"
    assert [message[:2] for message in checks("lookup.E004", "lookup.W004", "lookup.W005")] == [
        ("lookup.W005", f"mine.toml: {told}.")
    ]
    out, _, failed = run(capsys, "check_sources", "--samples")
    assert told in next(line for line in out.splitlines() if line.startswith("mine"))
    assert failed == f"1 of {len(registry.presets())} failed."


@pytest.mark.parametrize(
    ("auth", "request_line"),
    [
        (
            'query = { api_key = "MINE_KEY", api_secret = "MINE_SECRET" }',
            "https://secret.example.com/v1/secret/%2B12025550123?fields=name&fields=place&api_key=&api_secret=",
        ),
        ('path = "MINE_KEY"', "https://secret.example.com/v1/secret//%2B12025550123?fields=name&fields=place"),
    ],
)
def test_secrets_are_masked_by_position_not_by_value(
    settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, auth: str, request_line: str
) -> None:
    text = (PRESETS / "mock_a.toml").read_text(encoding="utf-8").replace("MOCK_A_", "MINE_")
    path = "v1/secret/{key}/{e164}" if auth.startswith("path") else "v1/secret/{e164}"
    text = text.replace("vendor.example.com/v1/callers/{e164}", f"secret.example.com/{path}")
    text = text.replace('headers = { X-Key = "MINE_KEY" }', auth)
    text = re.sub(r"GET https://\S+?(?=\")", f"GET {request_line}", text)
    (tmp_path / "mine.toml").write_text(text, encoding="utf-8")
    monkeypatch.setenv("MINE_KEY", "k1")
    monkeypatch.setenv("MINE_SECRET", "s1")
    settings.PRESET_DIR, settings.SOURCE_A = str(tmp_path), "mine"
    assert checks("lookup.E001", "lookup.E002", "lookup.E003", "lookup.E004", "lookup.W005") == []


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("directory,directory", "SOURCE_A names 'directory' twice."),
        ("complaints", "SOURCE_A: 'complaints' supplies only spam, but this slot has location and name."),
    ],
)
def test_useless_source_is_a_check(settings: Any, source: str, told: str) -> None:
    settings.SOURCE_A = source
    assert checks("lookup.E001") == [("lookup.E001", told, "Correct SOURCE_A in the environment.")]


class NeverCached(connectors.RemoteKnows):
    hit_ttl_s = None  # type: ignore[assignment]


class NegativeWait(connectors.RemoteKnows):
    max_wait_s = -1


@pytest.mark.parametrize(("name", "limit"), [("NeverCached", "hit_ttl_s"), ("NegativeWait", "max_wait_s")])
def test_class_with_an_invalid_time_is_a_check(settings: Any, name: str, limit: str) -> None:
    """The failing sequence: its first answer is never forgotten, because caching it raises TypeError."""
    settings.SOURCE_A = name = f"{__name__}.{name}"
    assert [found[1] for found in checks("lookup.E001")] == [
        f"SOURCE_A: {name}.{limit} must be a number of seconds, at least 0."
    ]


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


@pytest.mark.parametrize(
    ("name", "id_", "told", "hint"),
    [
        ("NeedsVariable", "E003", "needs SWITCHBOARD_URL, which the environment does not set.", "Set SWITCHBOARD_URL."),
        ("NeedsKey", "E001", "cannot be created: KeyError.", "Correct SOURCE_A in the environment."),
        (
            "SaysWhatItNeeds",
            *("E001", "cannot be created: Set SWITCHBOARD_URL to the address of the switchboard."),
            "Correct SOURCE_A in the environment.",
        ),
    ],
)
def test_class_that_cannot_be_created_is_a_check(
    settings: Any, monkeypatch: pytest.MonkeyPatch, name: str, id_: str, told: str, hint: str
) -> None:
    monkeypatch.setenv("A_PRIVATE_NAME", "")  # so that a KeyError of this name is not about the environment
    settings.SOURCE_A = f"{__name__}.{name}"
    assert checks("lookup.E001", "lookup.E003") == [
        (f"lookup.{id_}", f"SOURCE_A: '{__name__}.{name}' {told}", hint),
    ]


def test_preset_named_like_a_built_in_source_is_a_check(settings: Any, tmp_path: Path) -> None:
    text = (PRESETS / "mock_a.toml").read_text(encoding="utf-8").replace("MOCK_A_", "DIRECTORY_")
    (tmp_path / "directory.toml").write_text(text, encoding="utf-8")
    settings.PRESET_DIR = str(tmp_path)
    for bound, level in (("directory", "E"), ("geography", "W")):
        settings.SOURCE_A = bound
        assert [found[1] for found in checks(f"lookup.{level}002")] == [
            "directory.toml: directory is a built-in source."
        ]


def test_operators_preset_overrides_the_shipped_one(settings: Any, tmp_path: Path) -> None:
    shipped = registry.presets()["twilio"]
    (tmp_path / "twilio.toml").write_text(shipped.read_text(encoding="utf-8"), encoding="utf-8")
    settings.PRESET_DIR = str(tmp_path)
    assert registry.presets()["twilio"] == tmp_path / "twilio.toml"


def test_no_check_fails_if_everything_is_set(vendors: Vendors) -> None:
    assert checks("lookup.E001", "lookup.E002", "lookup.E003") == []
