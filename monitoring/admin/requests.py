"""The console's Request log: what came of each request of the last days. Nobody changes a row."""

import json
from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.utils.html import format_html

from accounts.admin.base import TokenListAdmin
from accounts.models import ApiToken, CreditEntry
from accounts.request_statistics import OUTCOMES
from core.admin import RELATED_PAGES, RelatedPage, change_link, column, page_url
from lookup.search import SLOTS
from monitoring.admin.request_queries import RequestLogForm
from monitoring.models import RequestLogEntry
from monitoring.source_statistics import is_failure, outcome_text
from monitoring.templatetags.figures import milliseconds

#: The answer is logged after the ledger entry is written.
MAX_WRITE_DELAY = timedelta(minutes=1)


def _list_url(**filters: str) -> str:
    return f"{page_url(RequestLogEntry, 'changelist')}?{urlencode(filters)}"


def _requests_of(token: ApiToken) -> str:
    return _list_url(token=f"#{token.pk}", since=f"{token.created_at:%Y-%m-%d}")


def _request_of(entry: CreditEntry) -> str:
    """Clients may send the same request id with every search."""
    minute, next_minute = (f"{at:%Y-%m-%dT%H:%M}" for at in (entry.created_at, entry.created_at + MAX_WRITE_DELAY))
    return _list_url(request_id=entry.request_id, since=minute, until=next_minute)


RELATED_PAGES[ApiToken] = RelatedPage("monitoring.view_requestlogentry", _requests_of)
RELATED_PAGES[CreditEntry] = RelatedPage("monitoring.view_requestlogentry", _request_of)


def _ms(us: int | None) -> str:
    return milliseconds(None if us is None else us / 1000)


def _call(connector: str, outcome: str, us: int | None, hint: str) -> dict[str, Any]:
    """What one connector did in a search."""
    row = {"connector": connector, "failed": is_failure(outcome), "text": outcome_text(outcome)}
    return {**row, "ms": _ms(us), "hint": hint}


def _slot_text(row: RequestLogEntry, slot: str) -> str:
    """What one slot did; `-` when it was not asked."""
    if not (status := getattr(row, slot)):
        return "-"
    failures = (failure.split(":") for failure in row.failures.split())
    reason = next((parts[-1] for parts in failures if parts[0] == slot), "") if status == "failed" else ""
    words = f"{status.replace('-', ' ')}: {reason}" if reason else status.replace("-", " ")
    return f"{words}, {_ms(getattr(row, f'{slot}_us'))}\N{NO-BREAK SPACE}ms"


def _slot(row: RequestLogEntry, slot: str) -> dict[str, Any]:
    """What one slot and its connectors did. `status`: empty when it was not asked."""
    logged = json.loads(row.calls).get(slot, []) if row.calls else []
    context = {"name": f"Source {slot[-1].upper()}", "status": getattr(row, slot), "text": _slot_text(row, slot)}
    return {**context, "calls": [_call(*call) for call in logged]}


@admin.register(RequestLogEntry)
class RequestLogAdmin(TokenListAdmin):
    list_form = RequestLogForm
    list_display = (
        "when_and_id",
        "token_link",
        "number",
        "status_text",
        "source_a_text",
        "source_b_text",
        "charged_text",
    )
    list_display_links = ("when_and_id",)

    # --- Columns and fields ---------------------------------------------------------------------------------------

    when_and_id = column(
        lambda row: format_html("{} <small>{}</small>", f"{row.created_at:%Y-%m-%d %H:%M:%S}", row.request_id),
        "time (UTC), request id",
    )
    number = column(lambda row: row.number_mask or "-", "number")
    status_text = column(lambda row: f"{row.status}, {OUTCOMES.get(row.outcome, row.outcome)}", "outcome")
    charged_text = column(
        lambda row: "1 credit" if row.charged else "no, replayed" if row.replayed else "no", "charged"
    )
    source_a_text = column(lambda row: _slot_text(row, "source_a"), "source A")
    source_b_text = column(lambda row: _slot_text(row, "source_b"), "source B")
    request_text = column(lambda row: row.request_id, "request id")
    duration = column(lambda row: f"{_ms(row.duration_us)} ms", "duration")
    customer = column(
        lambda row: change_link("accounts_customer", row.token.customer_id, row.token.customer), "customer"
    )
    entry_link = column(
        lambda row: change_link("accounts_creditentry", row.entry_id, f"Ledger entry {row.entry_id}"), "ledger entry"
    )
    masked_number = column(
        lambda row: (
            format_html("{} <small>(only this and a keyed hash are stored)</small>", row.number_mask)
            if row.number_mask
            else "-"
        ),
        "number",
    )
    fields = (
        *("when", "status_text", "charged_text", "entry_link", "token_link", "customer", "masked_number"),
        *("request_text", "duration"),
    )

    def page_context(self, request: HttpRequest, obj: RequestLogEntry) -> dict[str, Any]:
        return {"title": "Request", "subtitle": None, "slots": [_slot(obj, slot) for slot in SLOTS]}

    # --- Pages ----------------------------------------------------------------------------------------------------

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        if not settings.REQUEST_LOG_DAYS:
            self.message_user(request, "The request log is off: REQUEST_LOG_DAYS is 0.")
        return super().changelist_view(request, extra_context)
