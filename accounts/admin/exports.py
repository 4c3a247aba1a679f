"""The ledger as CSV: page by page, so that neither memory, a transaction nor a statement grows with it."""

import csv
import io
import logging
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

from accounts.ledger_forms import LedgerForm
from accounts.models import CreditEntry
from accounts.turns import give_connection_back

log = logging.getLogger(__name__)

#: In one statement, which must end within the time that one may take while serving.
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
}
INCOMPLETE = "INCOMPLETE: the database failed here, and older rows are missing. Export again."
#: A spreadsheet takes a text that begins so for a formula (OWASP, "CSV injection").
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def as_csv(form: LedgerForm) -> Iterator[str]:
    """What `form` asks for, the newest first, a page of lines at a time, each as it is when its page is read; the first
    at once.

    Whatever is charged meanwhile is newer than the first page, so no row comes twice. The answer has begun when a later
    page fails, and granian ends it then as if it were whole: so its last line says that it is not.
    """
    return _pages(form, _read(form))


def _read(form: LedgerForm, before: tuple[datetime, int] | None = None) -> list[tuple[Any, ...]]:
    rows = form.rows(CreditEntry.objects.all(), before).values_list(*COLUMNS.values())
    return list(rows[:PAGE_ROWS])


def _pages(form: LedgerForm, page: list[tuple[Any, ...]]) -> Iterator[str]:
    yield _lines([tuple(COLUMNS)])
    while page:
        give_connection_back()
        yield _lines(tuple(map(_cell, row)) for row in page)
        key, at, *_ = page[-1]
        try:
            page = _read(form, (at, key)) if len(page) == PAGE_ROWS else []
        except Exception:
            log.exception("the export of the ledger ended early")
            yield _lines([(INCOMPLETE,)])
            return


def _cell(value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, str):
        return f"'{value}" if value.startswith(_FORMULA) else value
    if isinstance(value, int):
        return value
    return value.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _lines(rows: Iterable[tuple[Any, ...]]) -> str:
    text = io.StringIO()
    csv.writer(text).writerows(rows)
    return text.getvalue()
