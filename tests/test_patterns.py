"""Every regular expression of the product takes time in proportion to the length of any text."""

import ast
import re
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
from django.conf import settings

from callerid_project.logging import PACKAGES
from tests.plugin import of_addons

ROOT = Path(__file__).parent.parent
LENGTH = 200_000
#: What the worst text of each pattern repeats. Add the one of a new pattern: what it matches most of, over and over,
#: without the part that it needs at its end. Those of add-ons are in WORST of their `tests` packages.
WORST = {
    "accounts.admin.search_text: #?([0-9]{1,18})": "0",
    "core.amounts._AMBIGUOUS": "0",
    "core.amounts._DECIMAL": "0",
    "core.amounts._GROUPED": "1,000",
    "core.amounts._WHOLE": "0",
    "core.bidi._ID": "(#0",
    "core.http._SECONDS": "0",
    "core.periods._CALENDAR_KEY": "0",
    "core.text._BLANK": " ",
    "core.text._CODECS": "iso8859_1",
    "lookup.vendors.bodies._CHARSET": "charset= ",
    "lookup.vendors.bodies._CODING": "a",
    "lookup.vendors.bodies._MEDIA_TYPE": "a/",
    "lookup.vendors.bodies._XML_ENCODING": "<?xml encoding",
    "lookup.vendors.json_api._DIGITS": "0",
    "lookup.vendors.placeholders._BETWEEN_WORDS": "_",
    "lookup.vendors.placeholders._ENTITY": "&#0",
    "lookup.vendors.placeholders._NUMBER": "-0",
    "core.text._NOT_STORABLE": "\0a",
    "core.cells._DATE": "2026-11-2",
    "core.cells._TIME": "0",
    "core.csv_cells._CELL_ENDS": ";",
    "accounts.customers: #?([0-9]{1,18})|.*\\(#([0-9]{1,18})\\)": "(#1",
    "accounts.idempotency._KEY": "k",
    "accounts.models: [0-9a-f]{32}": "0",
    "accounts.tokens._BEGINNING": "eyJ-",
    "accounts.tokens._EXACT": "a.",
    "accounts.tokens._JTI": "0",
    "accounts.tokens._JTI_CLAIM": '"jti": "0',
    "accounts.tokens._LAST_FOUR": "eyJhbGci…",
    "accounts.tokens._WHOLE": "eyJ",
    "accounts.unknown_charges._FILE_NAME": "1_1767225600000000_",
    "console.admin.history._NUMBER": "1",
    "console.second_factor._TOTP_CODE": "0",
    "console.second_factor: ....": "a",
    "console.second_factor: [\\s-]": "- ",
    "callerid_project.errors._LOGGED_HOST": "a.",
    "callerid_project.logging._CONTROL": "\0a",
    "callerid_project.logging._DIGITS": "+4930",
    "callerid_project.logging._TOKEN": "eyJ",
    "callerid_project.environment: [0-9,]*": "0",
    "callerid_project.hosts._NAME": "a.",
    "callerid_project.hosts._WORD": "a",
    "callerid_project.hosts: [\\s,]+": ", ",
    "callerid_project.logging.REQUEST_ID": "eyJ",
    "callerid_project.settings: [A-Za-z0-9_-]+(/[A-Za-z0-9_-]+)*": "a/",
    "callerid_project.asgi._UTF_8": " ",
    "core.long_lists: ([0-9]{1,17})-([0-9]{1,18})": "1-",
    "core.postgresql.base.WRITES": "INSERT FOR UPDAT",
    "core.postgresql.replication._NUMBER": "FIRST 1 ",
    "core.redis._CODE": "A",
    "core.redis._CODE_IN_SCRIPT": "-A",
    "core.redis_sentinel._HOST": "a",
    "core.redis_sentinel._URL": "sentinel://a@",
    "core.text._JOINER": "\u200c",
    "core.addresses: \\s": "a",
    "phonebook.admin.number_admin._NAMED": ">1",
    "console.erasure._NUMBER": "1",
    "phonebook.imports.readers.base.UNDECODED": "\udc80a",
    "core.numbers._DIGITS": "1",
    "core.numbers._AFTER": "1",
    "core.numbers._DECIMALS": "1",
    "core.numbers._EXPONENT": "1",
    "core.numbers._EXTENSION": ",#",
    "core.numbers._NUMBER": "1",
    "core.numbers._SECOND": "/ 1",
    "core.numbers._URI": "tel: ",
    "core.numbers._WRITTEN": "1",
    "core.numbers._NORTH_AMERICAN": "1206555",
    "core.numbers._SEPARATORS": " ",
    "core.numbers._TRUNK_ZERO": "( ",
    "lookup.answers._NUMBER": "12345",
    "lookup.answers._OUTCOME": "a",
    "lookup.vendors.capitals._WORD": "AB'",
    "lookup.vendors.json_api._BASE_URL": "https://a/",
    "lookup.vendors.authentication.ENVIRONMENT_NAME": "A",
    "core.addresses.LOOPBACK": "127.",
    "lookup.vendors.preset.NAME": "a",
    "lookup.vendors.authentication._HOST": "a-.",
    "lookup.vendors.oauth2: [!-~]+": "a",
    "core.api_client._LEFT": '"token";r=1',
    "callerid_project.settings: [a-z]{2}(_[A-Z][a-z]{3})?": "a",
    "lookup.vendors.preset._INDEX": "[1",
}


def product() -> Iterator[tuple[str, str]]:
    """Each module and its source."""
    for folder in PACKAGES:
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            is_absent = parts[0] == "contrib" and parts[1] not in settings.ADDONS
            if not (is_absent or {"migrations", "tests"}.intersection(parts)):
                yield ".".join(parts), path.read_text()


def patterns() -> Iterator[tuple[str, re.Pattern, set[str]]]:
    """Key, pattern and methods of each pattern: of constants of modules, and of calls such as re.sub with a literal.

    Those that functions build are not among them.
    """
    sources = dict(product())
    for module, source in sources.items():
        tree = ast.parse(source)
        for statement in tree.body:
            if isinstance(statement, ast.Assign) and ast.unparse(statement.value).startswith("re.compile("):
                name = ast.unparse(statement.targets[0])
                used = re.compile(rf"\b{name}\.([a-z]+)")
                methods = set(used.findall(source) or used.findall("".join(sources.values())))
                yield f"{module}.{name}", getattr(import_module(module), name), methods
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Call)
                and ast.unparse(node.func) in CALLS
                and isinstance(node.args[0], ast.Constant)
            ):
                pattern = str(node.args[0].value)
                yield f"{module}: {pattern}", re.compile(pattern), {ast.unparse(node.func).removeprefix("re.")}


METHODS = {"match", "fullmatch", "search", "sub", "findall", "finditer", "split"}
CALLS = {f"re.{method}" for method in METHODS}


@pytest.mark.once
def test_no_pattern_takes_quadratic_time() -> None:
    found = {key: (pattern, methods & METHODS) for key, pattern, methods in patterns()}
    worst = WORST | of_addons("WORST")
    assert set(found) == set(worst)
    for key, (pattern, methods) in found.items():
        for end in ("", "\0"):
            text = worst[key] * (LENGTH // len(worst[key])) + end
            for method in methods or {"search", "sub"}:
                started = time.process_time()
                _apply(pattern, method, text if isinstance(pattern.pattern, str) else text.encode())
                assert time.process_time() - started < 3, (key, method)


def _apply(pattern: re.Pattern, method: str, text: str | bytes) -> None:
    if method == "sub":
        pattern.sub("" if isinstance(text, str) else b"", text)
    elif method == "finditer":
        list(pattern.finditer(text))
    else:
        getattr(pattern, method)(text)
