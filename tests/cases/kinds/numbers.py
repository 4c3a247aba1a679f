"""How numbers are read as people write them."""

import re
import runpy
from collections.abc import Callable
from typing import Any

import pytest
from django import forms

from core import numbers
from core.forms import DecimalNumberField, WholeNumberField, country_code_help
from tests import plugin
from tests.cases.case import Case


def spellings(case: Case) -> None:
    """`[read]`: a spelling = its digits, or "" if it is no number: typed, searched for, and in a list with `region`."""
    region, expected = case.data.pop("region", None), case.data.pop("read")

    def digits(parse: Callable[[str], str], text: str) -> str:
        try:
            return parse(text)
        except numbers.InvalidNumber:
            return ""

    def listed(text: str) -> str:
        return numbers.parse_listed(text, region)

    readers = [listed] if region else [listed, numbers.parse_typed, numbers.parse_searched]
    got = {text: {digits(reader, text) for reader in readers} for text in expected}
    assert got == {text: {wanted} for text, wanted in expected.items()}


def typed_amounts(case: Case) -> None:
    """`[amounts]`: a text = the decimal number that forms read, the two that it may mean, or ""; `[credits]`: a text =
    the whole number, or ""."""

    def read(field: forms.Field, text: str) -> str:
        try:
            return str(field.clean(text))
        except forms.ValidationError as error:
            [message] = error.messages
            return message.partition(" may mean ")[2].partition(". Enter")[0]

    amounts, whole = case.data.pop("amounts"), case.data.pop("credits")
    assert {text: read(DecimalNumberField(), text) for text in amounts} == amounts
    assert {text: read(WholeNumberField(), text) for text in whole} == {text: str(n) for text, n in whole.items()}


def callers(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """`[given]`: settings; `[searched]`: a caller's number as it arrives = what Asterisk's script and the webhooks
    search for, or "". tests/integrations/vectors.py is for all systems."""
    given, expected = case.data.pop("given", {}), case.data.pop("searched")
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    scripts = [plugin.ROOT / "integrations" / name for name in ("asterisk/callerid.py", "webhooks/call_webhooks.py")]
    readers = [runpy.run_path(str(script))["full_number"] for script in scripts]
    got = {caller: {reader(caller) for reader in readers} for caller in expected}
    assert got == {caller: {number} for caller, number in expected.items()}


def missing_country_codes(case: Case, settings: Any) -> None:
    """`[suggested.CODE]`, where CALLERID_COUNTRY_CODE is CODE or `none`: what is typed = what the console says to enter
    instead, or "" if it cannot know."""
    expected: dict[str, dict[str, str]] = case.data.pop("suggested")
    got: dict[str, dict[str, str]] = {}
    for code, typed in expected.items():
        settings.COUNTRY_CODE = "" if code == "none" else code
        got[code] = {}
        for text in typed:
            said = country_code_help(text)
            assert said.startswith(f'"{text}" has no country code. Enter '), text
            found = re.search(r"Enter (\+[0-9 ]+), or", said)
            got[code][text] = found[1] if found else ""
    assert got == expected
