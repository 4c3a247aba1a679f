"""The ledger as CSV: page by page, so that neither memory, a transaction nor a statement grows with it."""

import csv
import io
import logging
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from accounts.admin.ledger_queries import LedgerSelection
from accounts.models import CreditEntry

log = logging.getLogger(__name__)

#: In one statement, which must end within the statement timeout.
PAGE_ROWS = 5_000
COLUMNS = {
    "row": "id",
    "time": "created_at",
    "token_id": "token_id",
    "token": "token__name",
    "kind": "kind",
    "credits": "amount",
    "balance_after": "balance_after",
    "request_id": "request_id",
    "by": "actor",
    "reason": "reason",
    "reference": "reference",
    "refunds_row": "refunds_id",
    "price": "price",
}
INCOMPLETE = "INCOMPLETE: a database error occurred here and older entries are missing. Export again."
#: A spreadsheet takes a text for a formula that begins with one of these, or with its full-width form (OWASP, "CSV
#: injection").
_FORMULA = tuple("=+-@＝＋－＠")
#: Where a spreadsheet may begin another cell or row: with some regional settings it expects semicolons or tabs.
_CELL_ENDS = re.compile(r"([;\t\r\n])")


def file_name(selection: LedgerSelection) -> str:
    data = selection.form.cleaned_data
    days = [f"{word}-{data[name]}" for word, name in (("from", "since"), ("to", "until")) if data[name]]
    token = f"token-{selection.token.pk}" if selection.token else ""
    customer = f"customer-{selection.customer.pk}" if selection.customer else ""
    return "-".join(filter(None, ["ledger", customer, token, data["kind__exact"], *days])) + ".csv"


def as_csv(selection: LedgerSelection) -> Iterator[str]:
    """The selected entries, newest first, a page of lines at a time; those of a customer token by token. The first page
    is read at once.

    Entries written meanwhile are newer than the first page, so none is repeated. When a later page fails, the response
    has begun: its last line then says that it is not complete.
    """
    parts = selection.parts()
    first = next(parts, None)
    return _pages(first, _read(first) if first else [], parts)


def _read(selection: LedgerSelection, before: tuple[datetime, int] | None = None) -> list[tuple[Any, ...]]:
    rows = selection.entries(CreditEntry.objects.all(), before).values_list(*COLUMNS.values())
    return list(rows[:PAGE_ROWS])


def _pages(
    part: LedgerSelection | None, page: list[tuple[Any, ...]], others: Iterator[LedgerSelection]
) -> Iterator[str]:
    yield _lines([tuple(COLUMNS)])
    while part is not None:
        if page:
            yield _lines(tuple(map(_cell, row)) for row in page)
        try:
            if len(page) == PAGE_ROWS:
                entry_id, created_at, *_ = page[-1]
                page = _read(part, (created_at, entry_id))
            elif part := next(others, None):
                page = _read(part)
        except Exception:
            log.exception("the ledger export ended early")
            yield _lines([(INCOMPLETE,)])
            return


def _cell(value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, str):
        return neutralized(value)
    if isinstance(value, int | Decimal):
        return value
    return value.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def neutralized(text: str) -> str:
    """`text` with an apostrophe before each part that a spreadsheet could take for a formula, also after quotation
    marks and spaces, which it may remove."""
    parts = _CELL_ENDS.split(text)
    return "".join(f"'{part}" if part.lstrip(" \N{NO-BREAK SPACE}\"'").startswith(_FORMULA) else part for part in parts)


def _lines(rows: Iterable[tuple[Any, ...]]) -> str:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue()
