"""Amounts, counts and limits as people, files and settings write them: in ASCII digits. Pure: no Django, no database.

Python's int() and Decimal() also read `1_000`, `٣` and `１２`, and Decimal() reads `1E9` and `NaN`.

Forms also read thousands that are separated, as pages write them, and a decimal comma, unless two readings differ by a
factor of 1,000; commands and settings do not.
"""

import re
from decimal import Decimal

_WHOLE = re.compile(r"[+-]?[0-9]{1,40}")
_DECIMAL = re.compile(r"[+-]?(?=\.?[0-9])[0-9]{0,40}(?:\.[0-9]{0,40})?")
#: Groups of three digits after the first, all with one separator; the decimal mark is another one.
_GROUPED = re.compile(
    "([+-]?[1-9][0-9]{0,2}(?:([ ,.'\u00a0\u2009\u2019\u202f])[0-9]{3})(?:\\2[0-9]{3}){0,12})"
    "(?:(?!\\2)[.,]([0-9]{0,40}))?"
)
#: One thousand in some countries, and one with three decimals in others.
_AMBIGUOUS = re.compile("[+-]?[1-9][0-9]{0,2}[.,][0-9]{3}")


class AmbiguousNumber(ValueError):
    """`choices`: what it may mean, each as text that means only that."""

    def __init__(self, text: str) -> None:
        text = text.replace(",", ".")
        self.choices = text.replace(".", ""), f"{text}0"
        super().__init__("an ambiguous number")


def whole_number(text: str) -> int:
    """`text` as a number of at most 40 digits, with or without a sign and spaces around it. Raises ValueError."""
    if not _WHOLE.fullmatch(text := text.strip()):
        raise ValueError("not a whole number")
    return int(text)


def decimal_number(text: str) -> Decimal:
    """As whole_number, with or without a decimal point. Raises ValueError."""
    if not _DECIMAL.fullmatch(text := text.strip()):
        raise ValueError("not a decimal number")
    return Decimal(text)


def typed_whole_number(text: str) -> int:
    """As whole_number, also `1,000`, as the console's pages write it, but not `1.000`. Raises ValueError."""
    text = _as_typed(text)
    if _AMBIGUOUS.fullmatch(text) and "." in text:
        raise ValueError("not a whole number")
    return whole_number(_without_separators(text))


def typed_decimal_number(text: str) -> Decimal:
    """As decimal_number, also `12,50`, `1,234.50` and `1.234,50`. Raises ValueError, AmbiguousNumber for `1,234`
    and `1.234`."""
    text = _as_typed(text)
    if _AMBIGUOUS.fullmatch(text):
        raise AmbiguousNumber(text)
    return decimal_number(_without_separators(text).replace(",", "."))


def _as_typed(text: str) -> str:
    """With the minus of keyboards: spreadsheets of some countries write another one."""
    return text.strip().replace("\u2212", "-")


def _without_separators(text: str) -> str:
    """`1234.50` for `1,234.50` and `1.234,50`; any other text as it is."""
    if not (match := _GROUPED.fullmatch(text)):
        return text
    return match[1].replace(match[2], "") + ("" if match[3] is None else f".{match[3]}")
