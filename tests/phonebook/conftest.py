"""Fixtures: files to import."""

from pathlib import Path
from typing import Any

import pytest

from core import db


@pytest.fixture(autouse=True)
def _no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(db, "SQLITE_PAUSE_S", 0)


@pytest.fixture
def file(tmp_path: Path) -> Any:
    """`file(content, name)`: the path of a file with that content."""

    def write(text: str | bytes, name: str = "list.csv") -> str:
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return str(path)

    return write
