"""Integrations install without the service, so each has its own list of what shows nothing. All have the same."""

import re

import pytest

from core.text import INVISIBLE
from tests.plugin import ROOT

ESCAPES = re.compile(r"\\+(?:x\{([0-9a-f]+)\}|u\{([0-9a-f]+)\}|u([0-9a-f]{4})|U([0-9a-f]{8}))")
CLASS = re.compile(f"[{INVISIBLE}]")


@pytest.mark.parametrize(
    "file",
    [
        "asterisk/callerid.py",
        "freepbx/source-Caller_Identification.module",
        "home-assistant/callerid.yaml",
        "node-red/callerid.json",
        "webhooks/call_webhooks.py",
    ],
)
def test_list_of_characters(file: str) -> None:
    text = (ROOT / "integrations" / file).read_text(encoding="utf-8")
    text = ESCAPES.sub(lambda escape: chr(int("".join(filter(None, escape.groups())), 16)), text)
    text = re.sub(r"""\\?["'](?:\s|\\n|[.+])*\\?["']""", "", text)  # between two strings
    begins = text.count(INVISIBLE[:2])
    assert (text.count(INVISIBLE), begins) == (begins, begins)
    assert begins >= 1


@pytest.mark.parametrize(
    ("file", "patterns"),
    [
        ("freeswitch/callerid.lua", r'"(\\[0-9]{3}[^"]*)"'),
        ("kamailio/kamailio.cfg", r"re\.subst,/(\\x[c-f][^/]*)/ /g"),
        ("opensips/opensips.cfg", r"# /(\\x[c-f][^/]*)/ /g"),
    ],
)
def test_list_of_bytes(file: str, patterns: str) -> None:
    text = (ROOT / "integrations" / file).read_text(encoding="utf-8")
    if file.endswith(".lua"):
        text = text.partition("local INVISIBLE = {")[2].partition("\n}")[0]
    found = "|".join(re.findall(patterns, text))
    found = re.sub(r"\\([0-9]{3})", lambda escape: rf"\x{int(escape[1]):02x}", found)
    pattern = re.compile(found.encode(), re.DOTALL)
    characters = {chr(code) for code in range(0xA0, 0xE1000) if not 0xD800 <= code < 0xE000}
    invisible = set(filter(CLASS.fullmatch, characters))
    assert {each for each in characters if pattern.fullmatch(each.encode())} == invisible
