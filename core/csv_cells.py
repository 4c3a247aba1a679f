"""CSV files that people open in a spreadsheet."""

import csv
import io
import re
from collections.abc import Iterable, Iterator
from typing import Any

#: Without it, Excel does not read UTF-8.
BYTE_ORDER_MARK = "\ufeff"
#: Characters of a part.
PART = 64 * 1024
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


def in_parts(rows: Iterable[Iterable[Any]], *, delimiter: str = ",") -> Iterator[str]:
    """The rows as CSV after a BYTE_ORDER_MARK, in parts of at least PART characters but for the last one. Row by row:
    while one call writes thousands of them, nothing else in the process runs."""
    text = io.StringIO()
    text.write(BYTE_ORDER_MARK)
    writer = csv.writer(text, delimiter=delimiter)
    for row in rows:
        writer.writerow(row)
        if text.tell() >= PART:
            yield text.getvalue()
            text.seek(0)
            text.truncate()
    yield text.getvalue()
