"""`list_presets`, and the page of the documentation that it writes."""

import json
import re
from typing import Any

import pytest

from tests.callerid_project.test_start import EXPENSIVE, imported
from tests.lookup.commands.test_sources import run
from tests.mock_vendors import PRESETS
from tests.plugin import ROOT


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
    assert "Billed per request" in " ".join(rows["twilio"]["caveats"])


def test_vendors_page_is_current(settings: Any, capsys: pytest.CaptureFixture[str]) -> None:
    settings.PRESET_DIR = str(PRESETS)  # docs/vendors.md has only the shipped ones
    out, _, _ = run(capsys, "list_presets", "--markdown")
    assert (ROOT / "docs" / "vendors.md").read_text(encoding="utf-8") == out
    assert "mock_a" not in out
    _, named = out.split("\n## Without a preset\n")
    assert re.findall(r"^- \*\*(\w+)", named, re.MULTILINE) == ["Bandwidth", "Vonage", "seven", "Telesign", "Data24"]


@pytest.mark.once
def test_neither_api_nor_console_nor_client_is_imported() -> None:
    work = "import contrib.preset_tools.management.commands.list_presets"
    assert not imported(work).intersection(EXPENSIVE)
