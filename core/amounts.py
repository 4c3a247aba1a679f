"""Amounts, counts and limits as people, files and settings write them: in ASCII digits. Pure: no Django, no database.

Python's int() and Decimal() also read `1_000`, `٣` and `１２`, and Decimal() reads `1E9` and `NaN`.
"""

import re
from decimal import Decimal

_WHOLE = re.compile(r"[+-]?[0-9]{1,40}")
_DECIMAL = re.compile(r"[+-]?(?=\.?[0-9])[0-9]{0,40}(?:\.[0-9]{0,40})?")


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
