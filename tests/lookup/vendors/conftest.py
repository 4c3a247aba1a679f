from collections.abc import Callable
from pathlib import Path

import pytest

from lookup.vendors import preset
from lookup.vendors.json_api import JsonApi
from tests.mock_vendors import KEYS, PRESETS

Make = Callable[..., JsonApi]
AUTH = 'headers = { X-Key = "MOCK_A_KEY" }'


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """A vendor by a changed mock preset: `make(("old", "new"), MOCK_A_KEY="…")`."""

    def made(*changes: tuple[str, str], name: str = "mock_a", **environment: str) -> JsonApi:
        text = (PRESETS / f"{name}.toml").read_text(encoding="utf-8")
        for old, new in changes:
            assert old in text
            text = text.replace(old, new, 1)
        file = tmp_path / f"{name}.toml"
        file.write_text(text, encoding="utf-8")
        return JsonApi(preset.load(file), {**KEYS, **environment})

    return made
