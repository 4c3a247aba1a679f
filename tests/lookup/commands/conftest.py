from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lookup.vendors import preset
from tests.mock_vendors import PRESETS


@pytest.fixture
def mine(settings: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Path]:
    """Write a preset, `mock_a` with replacements, as the only one. Testing the shipped ones takes most of a second."""
    folder = tmp_path / "presets"
    (tmp_path / "shipped").mkdir()
    folder.mkdir()
    monkeypatch.setattr(preset, "SHIPPED", tmp_path / "shipped")
    monkeypatch.setenv("MINE_KEY", "k1")
    settings.PRESET_DIR = str(folder)

    def write(*replacements: tuple[str, str], name: str = "mine") -> Path:
        text = (PRESETS / "mock_a.toml").read_text(encoding="utf-8").replace("MOCK_A_", f"{name.upper()}_")
        for old, new in replacements:
            assert old in text
            text = text.replace(old, new, 1)
        file = folder / f"{name}.toml"
        file.write_text(text, encoding="utf-8")
        return file

    return write
