"""The ledger as CSV: page by page, so that neither memory, a transaction nor a statement grows with it."""

import logging
from collections.abc import Iterator, Mapping
from datetime import UTC
from decimal import Decimal
from typing import Any

from django.db import InterfaceError, OperationalError, close_old_connections
from django.utils import timezone

from accounts.admin.ledger_queries import LedgerForm
from accounts.models import CreditEntry
from core.csv_cells import in_parts, neutralized
from core.long_lists import Page, Position

log = logging.getLogger(__name__)

#: In one statement, which must end within the statement timeout. A slow download holds as many in memory, some 400 kB.
PAGE_ROWS = 200
COLUMNS = {
    "row": "id",
    "time": "created_at",
    "token_id": "token_id",
    "token": "token__name",
    "customer_id": "token__customer_id",
    "customer": "token__customer__name",
    "kind": "kind",
    "credits": "amount",
    "balance_after": "balance_after",
    "request_id": "request_id",
    "by": "actor",
    "reason": "reason",
    "reference": "reference",
    "refunds_row": "refunds_id",
    "price": "price",
    "other_token_id": "other_token_id",
}
INCOMPLETE = "INCOMPLETE: a database error occurred here and older entries are missing. Export again."


def file_name(form: LedgerForm) -> str:
    """`ledger-customer-5-token-7-top-up-from-2026-01-01T0000-to-2026-01-09T2359.csv`, or `ledger-2026-Q1.csv`."""
    data, chosen = form.cleaned_data, form.chosen_period
    customer = f"customer-{data['customer'][0].pk}" if data["customer"] else ""
    token = next((f"token-{each.value}" for each in form.filters if each.name == "token"), "")
    period = [f"{word}-{data[name]:%Y-%m-%dT%H%M}" for word, name in (("from", "since"), ("to", "until")) if data[name]]
    if chosen and chosen.is_over:
        period = [chosen.calendar_at(timezone.now()).key]
    return "-".join(filter(None, ["ledger", customer, token, data["kind"], *period])) + ".csv"


def as_csv(form: LedgerForm, columns: Mapping[str, str] = COLUMNS) -> Iterator[str]:
    """The selected entries, newest first, in parts. The first page is read at once. `columns`: title → field.

    Entries written meanwhile are newer than the first page, so none is repeated. When a later page fails, the response
    has begun: its last line then says that it is not complete.
    """
    return in_parts(_rows(form, columns, _read(form, columns, None)))


def _read(form: LedgerForm, columns: Mapping[str, str], before: Position | None) -> Page:
    names = dict.fromkeys(["id", "created_at", *columns.values()])  # the next page begins at an id and a time
    return form.page(CreditEntry.objects.values_list(*names, named=True), before, PAGE_ROWS)


def _read_again_if_lost(form: LedgerForm, columns: Mapping[str, str], before: Position | None) -> Page:
    """As `_read`; with a new connection if the database closed the old one, as when it is restarted."""
    try:
        return _read(form, columns, before)
    except (InterfaceError, OperationalError):
        close_old_connections()
        return _read(form, columns, before)


def _rows(form: LedgerForm, columns: Mapping[str, str], page: Page) -> Iterator[tuple[Any, ...]]:
    yield tuple(columns)
    while True:
        for row in page.rows:
            yield tuple(cell(getattr(row, name)) for name in columns.values())
        if page.older is None:
            return
        try:
            page = _read_again_if_lost(form, columns, page.older)
        except Exception:
            log.exception("the ledger export ended early")
            yield (INCOMPLETE,)
            return


def cell(value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, str):
        return neutralized(value)
    if isinstance(value, int | Decimal):
        return value
    return value.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
