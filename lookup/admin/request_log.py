"""The console's Request log: what came of each request of the last days. Nobody changes a row."""

import json
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.contrib import admin, messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import URLPattern, path
from django.utils.html import format_html

from accounts.admin.base import TokenListAdmin
from accounts.models import CreditEntry
from accounts.statistics import OUTCOMES
from core.admin import change_link, column, require
from core.long_lists import in_range
from lookup.admin.request_queries import RequestLogForm
from lookup.models import RequestLogEntry
from lookup.search import SLOTS

#: The answer is logged after the ledger entry is written.
MAX_WRITE_DELAY = timedelta(minutes=1)
_SHARED, _CACHED = "shared_", "cached_"


@dataclass(frozen=True, slots=True)
class Call:
    """What one connector did in a search."""

    connector: str
    outcome: str
    ms: str
    hint: str

    @property
    def failed(self) -> bool:
        return self.outcome.removeprefix(_CACHED) not in ("found", "not_found")

    @property
    def text(self) -> str:
        """The outcome in words: `found (cached)`."""
        shared, cached = self.outcome.startswith(_SHARED), self.outcome.startswith(_CACHED)
        word = self.outcome.removeprefix(_SHARED).removeprefix(_CACHED)
        how = " (cached)" if cached else " (another search's call)" if shared else ""
        return (f"failed: {word}" if self.failed else word.replace("_", " ")) + how


@dataclass(frozen=True, slots=True)
class SlotLog:
    """What one slot did. `status`: empty when it was not asked."""

    name: str
    status: str
    ms: str
    calls: list[Call]
    reason: str

    @property
    def text(self) -> str:
        if not self.status:
            return "-"
        return (
            f"{self.status.replace('-', ' ')}{f': {self.reason}' if self.reason else ''}, {self.ms}\N{NO-BREAK SPACE}ms"
        )


def _ms(us: int | None) -> str:
    return "-" if us is None else f"{us / 1000:,.1f}"


def slot_log(row: RequestLogEntry, slot: str) -> SlotLog:
    status, us = getattr(row, slot), getattr(row, f"{slot}_us")
    logged = json.loads(row.calls).get(slot, []) if row.calls else []
    calls = [Call(connector, outcome, _ms(call_us), hint) for connector, outcome, call_us, hint in logged]
    failures = (failure.split(":") for failure in row.failures.split())
    reasons = [parts[-1] for parts in failures if parts[0] == slot] if status == "failed" else []
    return SlotLog(f"Source {slot[-1].upper()}", status, _ms(us), calls, reasons[0] if reasons else "")


def _status(row: RequestLogEntry) -> str:
    return f"{row.status}, {OUTCOMES.get(row.outcome, row.outcome)}"


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
    status_text = column(_status, "outcome")
    charged_text = column(lambda row: "1 credit" if row.charged else "-", "charged")
    charged_or_not = column(
        lambda row: "1 credit" if row.charged else "no, replayed" if row.replayed else "no", "charged"
    )
    source_a_text = column(lambda row: slot_log(row, "source_a").text, "source A")
    source_b_text = column(lambda row: slot_log(row, "source_b").text, "source B")
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
        *("when", "status_text", "charged_or_not", "entry_link", "token_link", "customer", "masked_number"),
        *("request_text", "duration"),
    )

    def page_context(self, request: HttpRequest, obj: RequestLogEntry) -> dict[str, Any]:
        return {"title": "Request", "subtitle": None, "slots": [slot_log(obj, slot) for slot in SLOTS]}

    # --- Pages ----------------------------------------------------------------------------------------------------

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.charge_view)
        return [path("charge/<int:entry_id>/", view, name="lookup_requestlogentry_charge"), *super().get_urls()]

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        if not settings.REQUEST_LOG_DAYS:
            self.message_user(request, "The request log is off: REQUEST_LOG_DAYS is 0.")
        return super().changelist_view(request, extra_context)

    def charge_view(self, request: HttpRequest, entry_id: int) -> HttpResponse:
        """Redirects to the request that a ledger entry of a search belongs to."""
        require(self.has_view_permission(request))
        entry = get_object_or_404(CreditEntry, pk=entry_id, kind=CreditEntry.Kind.SEARCH)
        if row := _of_charge(entry):
            return redirect("admin:lookup_requestlogentry_change", row.pk)
        days = settings.REQUEST_LOG_DAYS
        text = (
            f"This request is not in the request log. It keeps {days} days, and lists a request after some seconds."
            if days
            else "This request is not in the request log, which is off: REQUEST_LOG_DAYS is 0."
        )
        self.message_user(request, text, messages.WARNING)
        if request.user.has_perm("accounts.view_creditentry"):
            return redirect("admin:accounts_creditentry_change", entry_id)
        return redirect("admin:lookup_requestlogentry_changelist")


def _of_charge(entry: CreditEntry) -> RequestLogEntry | None:
    """The request of this charge. Clients may send the same request id with every search."""
    first, last = entry.created_at - timedelta(seconds=1), entry.created_at + MAX_WRITE_DELAY
    rows = RequestLogEntry.objects.filter(entry_id=entry.pk)
    return in_range(rows, "request_id", entry.request_id, first, last).first()
