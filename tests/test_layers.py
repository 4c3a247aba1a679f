"""No app addresses one above it by a string: a URL name, a permission or a template. (Imports: `lint-imports`.)"""

import re

import pytest

from tests.plugin import ROOT

pytestmark = pytest.mark.once

#: From the lowest. Neither of `accounts` and `phonebook` may address the other.
LAYERS = [["core"], ["accounts", "phonebook"], ["lookup"], ["monitoring"], ["console"], ["callerid_project"]]
ADDRESS = r"admin:{app}_\w|[\"']{app}_\w+_(?:changelist|change|add)\b|admin/{app}/|\b{app}\.(?:view|add|change|delete)_"


@pytest.mark.parametrize("level", range(len(LAYERS)), ids=[" ".join(apps) for apps in LAYERS])
def test_no_app_addresses_one_above_it(level: int) -> None:
    found = []
    for app in LAYERS[level]:
        others = [name for apps in LAYERS[level:] for name in apps if name != app]
        pattern = re.compile("|".join(ADDRESS.format(app=other) for other in others) or r"(?!)")
        files = [path for path in sorted((ROOT / app).rglob("*")) if path.suffix in (".py", ".html", ".js")]
        assert files
        for path in files:
            lines = path.read_text(encoding="utf-8").splitlines()
            found += [f"{path}:{number}" for number, line in enumerate(lines, 1) if pattern.search(line)]
    assert found == []
