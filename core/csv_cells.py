"""Cells of CSV files that people open in a spreadsheet."""

import re

#: A spreadsheet takes a text for a formula that begins with one of these, or with its full-width form (OWASP, "CSV
#: injection").
_FORMULA = tuple("=+-@＝＋－＠")
#: Where a spreadsheet may begin another cell or row: with some regional settings it expects semicolons or tabs.
_CELL_ENDS = re.compile(r"([;\t\r\n])")


def neutralized(text: str) -> str:
    """`text` with an apostrophe before each part that a spreadsheet could take for a formula, also after quotation
    marks and spaces, which it may remove."""
    parts = _CELL_ENDS.split(text)
    return "".join(f"'{part}" if part.lstrip(" \N{NO-BREAK SPACE}\"'").startswith(_FORMULA) else part for part in parts)
