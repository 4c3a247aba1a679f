"""The console's Request log: what came of each request of the last days. Nobody changes a row."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, cast
from urllib.parse import urlencode

from django import forms
from django.conf import settings
from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.html import format_html

from accounts import credits, idempotency
from accounts.admin.ledger import REFUND, refund_link
from accounts.admin.ledger_queries import LedgerForm
from accounts.admin.token_rows import TokenListAdmin, TokenListForm, customer_filter, token_filter
from accounts.models import ApiToken, CreditEntry
from accounts.request_statistics import OUTCOMES
from contrib.request_log import logged_charges
from contrib.request_log.models import RequestLogEntry
from core import numbers
from core.admin import RELATED_PAGES, RelatedPage
from core.cells import change_link, column, failed, html_link, page_url, short_id, shortened
from core.console_search import MAX_SHOWN, Result, Search
from core.forms import SearchedNumberField
from core.hashing import keyed_hash
from core.list_fields import choice_field, text_field
from core.long_lists import Filter
from lookup.search import SLOTS
from lookup.source_actions import configured
from monitoring.models import SourceResult
from monitoring.source_statistics import REASONS, advice, is_failure, outcome_text
from monitoring.templatetags.figures import milliseconds
from phonebook.admin.number_admin import NUMBER_PAGES

ANY = "any"
SLOT_NAMES = {"source_a": "Source A", "source_b": "Source B"}
STATUSES = (200, 400, 403, 429, 500, 503)


# --- Filters ---------------------------------------------------------------------------------------------------------


def failing_choices() -> list[tuple[str, str]]:
    """Any source, each slot, and each configured connector."""
    return [(ANY, "Any source"), *SLOT_NAMES.items(), *((name, name) for name in sorted(configured()))]


class RequestLogForm(TokenListForm):
    """A URL has the keyed hash of the number, which selects nothing once the number is erased, and its mask."""

    request_id = text_field("Request id", "X-Request-ID", 64)
    number = SearchedNumberField(
        label="Number", required=False, max_length=40, attrs={"placeholder": "+49 30 23125042"}
    )
    outcome = choice_field("Outcome", OUTCOMES.items())
    status = choice_field("Status", [(str(status), str(status)) for status in STATUSES])
    failed = choice_field("Failed source", failing_choices)
    reason = choice_field("Reason", [(reason, reason.replace("_", " ")) for reason in REASONS])
    number_hash = forms.RegexField(
        r"\A[0-9a-f]{64}(-[0-9]{0,3}\*{2,12}[0-9]{2})?\Z", required=False, widget=forms.HiddenInput
    )

    main = ("token", "customer", "request_id", "number")
    more = "Outcome, source and time"
    specific = ("request_id", "number", "number_hash")
    noun = "requests"
    empty_help = "New requests appear after about 2 seconds."

    @classmethod
    def from_url(cls, query: Any) -> "RequestLogForm":
        """A URL with a number has an error instead."""
        form = cls({**query.dict(), "number": ""})
        if query.get("number"):
            form.add_error("number", "Use this field: a number in a URL would be logged.")
        return form

    def url_parameters(self) -> dict[str, str]:
        """A number replaces the one whose hash was submitted."""
        values = super().url_parameters()
        if values.pop("number", ""):
            number = self.cleaned_data["number"]
            values["number_hash"] = _masked_hash(keyed_hash("number", number), numbers.mask(number))
        return values

    @property
    def kept_days(self) -> int:
        return cast(int, settings.REQUEST_LOG_DAYS)

    def first_row_at(self, rows: QuerySet) -> datetime:
        """Without a statement: `prune` may be late."""
        return timezone.now() - timedelta(days=self.kept_days)

    @property
    def ledger_query(self) -> str:
        """If the period begins before the oldest request that is kept: the ledger of that period, as the query of a
        URL. Empty for a number, which the ledger cannot be searched for."""
        if not self.is_valid() or self.data["number"] or self.data["number_hash"]:
            return ""
        if self.cleaned_data["since"] > timezone.now() - timedelta(days=self.kept_days):
            return ""
        return urlencode(
            {name: value for name, value in self.url_parameters().items() if name in LedgerForm.base_fields}
        )

    def selected(self, data: dict[str, Any]) -> Iterator[Filter]:
        if data["request_id"]:
            yield Filter("request_id", "request_id", data["request_id"])
        if data["number"]:
            yield Filter("number", "number_hash", keyed_hash("number", data["number"]))
        elif data["number_hash"]:
            digest, _, mask = data["number_hash"].partition("-")
            note = f"Only requests for {f'{mask}, the number searched for' if mask else 'one number'}."
            yield Filter("number_hash", "number_hash", bytes.fromhex(digest), note=note)
        if data["token"]:
            yield token_filter(data["token"], "requests")
        if data["status"] == "200":  # not in the index
            yield Filter("status", condition=Q(status=200))
        elif data["status"]:
            yield Filter("status", "status", int(data["status"]), ~Q(status=200))
        if data["failed"] or data["reason"]:
            yield _failed(data["failed"], data["reason"])
        if data["outcome"]:
            yield Filter("outcome", "outcome", data["outcome"])
        if data["customer"]:
            others = ("token", "request_id", "number", "number_hash", "outcome", "status", "failed", "reason")
            is_only_filter = not any(data[name] for name in others)
            yield customer_filter(data["customer"], "requests", is_only_filter=is_only_filter)


def _masked_hash(number_hash: bytes, mask: str) -> str:
    """The value of `number_hash` in a URL: 64 hexadecimal digits, and what the list calls the number."""
    return f"{number_hash.hex()}-{mask}"


def _failed(failed: str, reason: str) -> Filter:
    """The failures of the selected source for the selected reason."""
    slot = failed if failed in SLOTS else "[^ :]+"
    connector = "[^ ]+" if failed in ("", ANY, *SLOTS) else re.escape(failed)
    pattern = f"(^| ){slot}:{connector}:{re.escape(reason) if reason else '[^ :]+'}( |$)"
    every = failed in ("", ANY) and not reason
    return Filter("failed", index_condition=~Q(failures=""), condition=Q() if every else Q(failures__regex=pattern))


# --- Pages -----------------------------------------------------------------------------------------------------------


def _list_url(**filters: str) -> str:
    return f"{page_url(RequestLogEntry, 'changelist')}?{urlencode(filters)}"


def _request_of(entry: CreditEntry) -> str:
    """Clients may send the same request id with every search."""
    minute, next_minute = (
        f"{at:%Y-%m-%dT%H:%M}" for at in (entry.created_at, entry.created_at + logged_charges.MAX_WRITE_DELAY)
    )
    return _list_url(request_id=entry.request_id, since=minute, until=next_minute)


def _requests_for_number(row: RequestLogEntry) -> str:
    """A link to the requests for the number of `row`; empty without one."""
    if row.number_hash is None:
        return ""
    return html_link(
        _list_url(number_hash=_masked_hash(bytes(row.number_hash), row.number_mask)), "Requests for this number"
    )


def _details_of(entries: Sequence[CreditEntry]) -> dict[int, str]:
    logged = logged_charges.requests_of(entries)
    repeated = logged_charges.repeated(list(logged.values()))
    return {
        pk: format_html(
            "{} <small>{}</small> {}",
            OUTCOMES.get(row.outcome, row.outcome),
            row.number_mask,
            _repeated_label(repeated.get(row.pk)),
        )
        for pk, row in logged.items()
    }


def _repeated_label(earlier_id: int | None) -> str:
    """What is said of a charge that repeats that of an earlier request (logged_charges.repeated), with a link to it."""
    if earlier_id is None:
        return ""
    link = change_link("request_log_requestlogentry", earlier_id, "earlier request")
    return format_html('<strong class="console-repeated">repeated within 1 minute</strong> <small>{}</small>', link)


def _charged(row: Any) -> str:
    """With what was done about the charge (RequestLogAdmin.complete)."""
    if not row.charged:
        return "no, replayed" if row.replayed else "no"
    repeated = _repeated_label(getattr(row, "repeats", None))
    return format_html("1 credit{} {}", ", refunded" if row.refund else "", repeated)


def _can_refund(request: HttpRequest) -> bool:
    return request.user.has_perms(["accounts.view_creditentry", REFUND])


_PERMISSION = "request_log.view_requestlogentry"
NUMBER_PAGES["Requests for this number"] = (_PERMISSION, "admin:request_log_requestlogentry_changelist")
RELATED_PAGES[ApiToken] = RelatedPage(
    _PERMISSION, lambda token: _list_url(token=f"#{token.pk}", since=f"{token.created_at:%Y-%m-%d}")
)
RELATED_PAGES[CreditEntry] = RelatedPage(_PERMISSION, _request_of, _details_of)
RELATED_PAGES[SourceResult] = RelatedPage(
    _PERMISSION,
    lambda failure: _list_url(failed=failure.connector, reason=failure.reason, since=f"{failure.at:%Y-%m-%d}"),
)


def found(search: Search) -> Iterable[Result]:
    """By request id; by number the filtered list."""
    rows = RequestLogEntry.objects.select_related("token")
    for row in RequestLogForm({"request_id": search.text}).page(rows, size=MAX_SHOWN + 1).rows:
        detail = f"{row.token}, {row.created_at:%Y-%m-%d %H:%M:%S} UTC, status {row.status}"
        yield Result(str(row), page_url(RequestLogEntry, "change", row.pk), detail)
    if search.number is not None and not search.is_typed:
        by_number = RequestLogForm({"number": f"+{search.number}"})
        if by_number.page(rows, size=1).rows:
            yield Result(
                f"Requests for {numbers.formatted(str(search.number))}", _list_url(**by_number.url_parameters())
            )


_KEY_TEXTS = {True: "sent", False: "not sent", None: "not recorded"}
_KEY_HOURS = idempotency.LIFETIME // timedelta(hours=1)
_REPEATS = {
    True: f"A repeat with the same key and number within {_KEY_HOURS} hours is not charged.",
    False: "Each request without a key is a new search, and charged as one.",
    None: "",
}


def _key_text(row: RequestLogEntry) -> str:
    """With what a repeat of an answered request costs; nothing is stored of others."""
    text = _KEY_TEXTS[row.idempotency_key]
    repeat = _REPEATS[row.idempotency_key] if row.status == 200 and row.outcome != "test" else ""
    return format_html("{} <small>{}</small>", text, repeat) if repeat else text


def _ms(us: int | None) -> str:
    return milliseconds(None if us is None else us / 1000)


def _call(connector: str, outcome: str, us: int | None, hint: str) -> dict[str, Any]:
    """What one connector did in a search."""
    row = {"connector": connector, "failed": is_failure(outcome), "text": outcome_text(outcome)}
    return {**row, "ms": _ms(us), "hint": hint, "advice": advice(outcome, connector)}


def _status_text(row: RequestLogEntry) -> str:
    """The outcome, with the HTTP status if it is not 200."""
    text = OUTCOMES.get(row.outcome, row.outcome)
    return text if row.status == 200 else failed(f"{row.status}, {text}")


def _slot_words(row: RequestLogEntry, slot: str) -> tuple[str, str]:
    """What one slot did, and how long it took; empty when it was not asked."""
    if not (status := getattr(row, slot)):
        return "", ""
    failures = (failure.split(":") for failure in row.failures.split())
    reason = next((parts[-1] for parts in failures if parts[0] == slot), "") if status == "failed" else ""
    words = f"{status.replace('-', ' ')}: {reason}" if reason else status.replace("-", " ")
    return words, f"{_ms(getattr(row, f'{slot}_us'))}\N{NO-BREAK SPACE}ms"


def _slot_label(row: RequestLogEntry, slot: str) -> str:
    """What one slot did, for the list; `-` when it was not asked."""
    words, duration = _slot_words(row, slot)
    text = failed(words) if getattr(row, slot) == "failed" else words
    return format_html("{} <small>{}</small>", text, duration) if words else "-"


def _slot(row: RequestLogEntry, slot: str) -> dict[str, Any]:
    """What one slot and its connectors did. `status`: empty when it was not asked."""
    logged = json.loads(row.calls).get(slot, []) if row.calls else []
    context = {"name": SLOT_NAMES[slot], "status": getattr(row, slot), "text": ", ".join(_slot_words(row, slot))}
    return {**context, "calls": [_call(*call) for call in logged]}


@admin.register(RequestLogEntry)
class RequestLogAdmin(TokenListAdmin):
    list_form = RequestLogForm
    list_display = (
        *("when", "token_link", "number", "status_text", "source_a_text", "source_b_text", "charged_text"),
        *("short_request_id", "refund_action"),
    )
    list_display_links = ("when",)

    # --- Columns and fields ---------------------------------------------------------------------------------------

    short_request_id = column(
        lambda row: short_id(row.request_id, page_url(RequestLogEntry, "change", row.pk)), "request id"
    )
    refund_action = column(lambda row: refund_link(row.entry_id, row.refund), "refund")
    number = column(lambda row: row.number_mask or "-", "number")
    status_text = column(_status_text, "outcome")
    charged_text = column(_charged, "charged")
    key_text = column(_key_text, "Idempotency-Key")
    source_a_text = column(lambda row: _slot_label(row, "source_a"), "source A")
    source_b_text = column(lambda row: _slot_label(row, "source_b"), "source B")
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
            format_html(
                "{} <small>(only this and a keyed hash are stored)</small> {}",
                *(row.number_mask, _requests_for_number(row)),
            )
            if row.number_mask
            else "-"
        ),
        "number",
    )
    fields = (
        *("when", "status_text", "charged_text", "refund_action", "entry_link", "token_link", "customer"),
        *("masked_number", "key_text", "request_text", "duration"),
    )

    def page_context(self, request: HttpRequest, obj: RequestLogEntry) -> dict[str, Any]:
        return {
            "title": "Request",
            "subtitle": f"Request {shortened(obj.request_id)}",
            "charge_rule": credits.charge_rule() if obj.charged else "",
            "slots": [_slot(obj, slot) for slot in SLOTS],
        }

    # --- Pages ----------------------------------------------------------------------------------------------------

    def get_list_display(self, request: HttpRequest) -> tuple[str, ...]:
        return self.list_display if _can_refund(request) else self.list_display[:-1]

    def get_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        is_shown = obj is not None and obj.entry_id and (obj.refund or _can_refund(request))
        return tuple(name for name in self.fields if is_shown or name != "refund_action")

    def complete(self, request: HttpRequest, rows: list[Any]) -> None:
        """What the ledger knows of the charges."""
        repeated = logged_charges.repeated(rows)
        refunds = logged_charges.refunds([row.entry_id for row in rows if row.entry_id])
        for row in rows:
            row.repeats, row.refund = repeated.get(row.pk), refunds.get(row.entry_id)

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        if row := super().get_object(request, object_id, from_field):
            self.complete(request, [row])
        return row

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        if not settings.REQUEST_LOG_DAYS:
            self.message_user(request, "The request log is off: REQUEST_LOG_DAYS is 0.")
        if request.method == "POST" and self.has_view_permission(request):
            self._name_number(request, RequestLogForm(request.POST))
        return super().changelist_view(request, extra_context)

    def _name_number(self, request: HttpRequest, form: RequestLogForm) -> None:
        """Tells the user, once, which number the next page lists: its URL and its filters have the mask alone. Messages
        are in a cookie."""
        if form.is_valid() and form.cleaned_data["number"]:
            time = "the whole time" if form.has_default_period else "the selected period"
            self.message_user(request, f"Requests for {numbers.formatted(form.cleaned_data['number'])} in {time}.")
