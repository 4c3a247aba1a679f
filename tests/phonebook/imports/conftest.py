from typing import Any

import pytest

from tests.phonebook.imports.loading import Write


@pytest.fixture
def write(file: Any) -> Write:
    def written(text: str, name: str = "rows.csv") -> str:
        path: str = file(text, name)
        return path

    return written
