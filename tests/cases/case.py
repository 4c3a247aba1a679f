"""A situation from a public report: its folder and its data."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDERS = sorted(file.parent for file in Path(__file__).parent.glob("*/case.toml"))


@dataclass(frozen=True)
class Case:
    """`data`: what case.toml has for its kind; a kind takes out what it uses."""

    folder: Path
    kind: str
    data: dict[str, Any]

    @classmethod
    def load(cls, folder: Path) -> "Case":
        """Raises KeyError if case.toml does not say where the case comes from."""
        data = tomllib.loads((folder / "case.toml").read_text(encoding="utf-8"))
        if not (data.pop("sources") and data.pop("situation")):
            raise KeyError(f"{folder.name}: sources and situation")
        return cls(folder, data.pop("kind"), data)
