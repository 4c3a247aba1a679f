"""The ledger in the console: why a token was charged, refunds, and the export. Nobody changes an entry."""

import hmac
from collections.abc import Iterable
from typing import Any, cast

from django.conf import settings
from django.contrib import admin
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.db.models import Prefetch, QuerySet, prefetch_related_objects
from django.http import HttpRequest, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.urls import URLPattern, path
from django.utils.html import format_html

from accounts import credits
from accounts.admin import ledger_export
from accounts.admin.allowance import limited_user, require_allowance
from accounts.admin.ledger_queries import CompareNumberForm, LedgerForm, RefundForm
from accounts.admin.token_rows import TokenListAdmin
from accounts.models import CreditEntry
from core import attempt_limits, history
from core.admin import (
    RELATED_PAGES,
    Unchanged,
    form_action,
    related_page,
    require,
)
from core.cells import change_link, column, folded, html_link, money, page_url, short_id
from core.commands import command_line
from core.hashing import keyed_hash

#: Numbers that one user may compare with entries, and in how many seconds: trying them all would reveal the number.
COMPARE_RATE = (10, 60)
REFUND = "accounts.refund_creditentry"
REFUNDS = Prefetch("refunded_by", CreditEntry.objects.only("refunds", "created_at", "actor"))


def _request_link(entry: CreditEntry) -> str:
    """The request id, with a link to the request's page if it was a search."""
    if not entry.request_id:
        return "-"
    related = RELATED_PAGES.get(CreditEntry) if _is_search(entry) else None
    return short_id(entry.request_id, related.url(entry) if related else "")


def _is_search(entry: CreditEntry) -> bool:
    return entry.kind == CreditEntry.Kind.SEARCH


def refund_link(entry_id: int | None, refund: CreditEntry | None) -> str:
    """A link that refunds this entry, or to its `refund`; `-` without either."""
    if refund is not None:
        return _entry_link(refund.pk, refunded(refund))
    return html_link(page_url(CreditEntry, "refund", entry_id), "Refund") if entry_id else "-"


def refunded(refund: CreditEntry) -> str:
    return f"Refunded on {refund.created_at:%Y-%m-%d} by {refund.actor or 'the service'}"


def _refund_of(entry: CreditEntry) -> CreditEntry | None:
    return next(iter(entry.refunded_by.all()), None)


def described(request: HttpRequest, entries: Iterable[CreditEntry]) -> list[Any]:
    """With `details`: what its related page says of a search, for those who may view that; the reason of another entry,
    and whose it is. With `request_link` and `refund_link`."""
    rows: list[Any] = list(entries)
    prefetch_related_objects(rows, REFUNDS)
    related = related_page(request, CreditEntry)
    logged = related.details(rows) if related else {}
    for entry in rows:
        entry.details = logged.get(entry.pk, "-") if _is_search(entry) else _booked(entry)
        entry.refund_link = refund_link(None, _refund_of(entry))
        entry.request_link = _request_link(entry)
    return rows


def _price(entry: CreditEntry) -> str:
    return "" if entry.price is None else f"{money(entry.price.normalize())} {settings.CURRENCY}"


def _booked(entry: CreditEntry) -> str:
    reference = entry.own_reference and f"reference {entry.own_reference}"
    more = ", ".join(filter(None, (_price(entry), entry.actor and f"by {entry.actor}", reference)))
    return format_html("{} <small>{}</small>", folded(entry.own_reason), more) if entry.own_reason else more or "-"


@admin.register(CreditEntry)
class CreditEntryAdmin(TokenListAdmin):
    list_form = LedgerForm
    list_display = (
        *("when", "token_link", "kind_text", "signed_amount", "balance", "details", "request_link"),
        "refund_action",
    )
    list_display_links = ("when",)
    actions_detail = ("refund", "check_number")

    def get_queryset(self, request: HttpRequest) -> QuerySet[CreditEntry]:
        return super().get_queryset(request).prefetch_related(REFUNDS)

    def complete(self, request: HttpRequest, rows: list[Any]) -> None:
        for entry in described(request, rows):
            entry.is_of_listed_customer = bool(request.GET.get("customer"))

    def get_list_display(self, request: HttpRequest) -> tuple[str, ...]:
        return self.list_display if request.user.has_perm(REFUND) else self.list_display[:-1]

    # --- Columns and fields ---------------------------------------------------------------------------------------

    signed_amount = column(lambda entry: f"{entry.amount:+,}" if entry.amount else "0", "credits")
    balance = column(lambda entry: f"{entry.balance_after:,}", "balance")
    request_link = column(_request_link, "request id")
    kind_text = column(lambda entry: f"{entry.kind_text}{', refunded' * bool(_refund_of(entry))}", "kind")
    details = column(lambda entry: entry.details, "details")
    refund_action = column(
        lambda entry: refund_link(entry.pk if _is_search(entry) else None, _refund_of(entry)), "refund"
    )
    outcome = column(
        lambda entry: RELATED_PAGES[CreditEntry].details([entry]).get(entry.pk, "No longer kept."),
        "outcome",
    )
    paid = column(_price, "price")
    number = column(
        lambda entry: (
            "Erased: it can no longer be checked."
            if entry.number_hash is None
            else "The ledger stores only a keyed hash. You can check a number against it."
        ),
        "number",
    )
    refunded_text = column(lambda entry: refund_link(None, _refund_of(entry)), "refund")
    reason_text = column(lambda entry: folded(entry.own_reason) or "-", "reason")
    own_reference = column(lambda entry: entry.own_reference, "reference")
    search_link = column(lambda entry: _entry_link(entry.refunds_id), "refund of")
    other_token_link = column(
        lambda entry: change_link("accounts_apitoken", entry.other_token_id, entry.other_token), "other token"
    )
    counterpart_link = column(
        lambda entry: (
            _entry_link(entry.counterpart.pk) if entry.counterpart else f"Missing: run {command_line('audit_credits')}."
        ),
        "its ledger entry",
    )

    def get_fields(self, request: HttpRequest, obj: CreditEntry | None = None) -> tuple[str, ...]:
        fields = ("when", "token_link", "kind", "signed_amount", "balance")
        reference = ("own_reference",) if obj is not None and obj.own_reference else ()
        if obj is not None and obj.kind == CreditEntry.Kind.SEARCH:
            logged = ("outcome",) if related_page(request, CreditEntry) else ()
            return (*fields, "request_link", *logged, "number", "refunded_text")
        if obj is not None and obj.kind == CreditEntry.Kind.TRANSFER:
            return (*fields, "other_token_link", "counterpart_link", "actor", "reason_text", *reference)
        refund = obj is not None and obj.kind == CreditEntry.Kind.REFUND
        priced = () if obj is None or obj.price is None else ("paid",)
        return (*fields, *priced, "actor", "reason_text", *(("search_link",) if refund else reference))

    # --- Pages ----------------------------------------------------------------------------------------------------

    def get_urls(self) -> list[URLPattern]:
        export = self.admin_site.admin_view(self.export_view)
        return [path("export/", export, name="accounts_creditentry_export"), *super().get_urls()]

    def page_context(self, request: HttpRequest, obj: CreditEntry) -> dict[str, Any]:
        rule = credits.charge_rule() if _is_search(obj) else ""
        return {"title": str(obj), "subtitle": None, "charge_rule": rule}

    def export_view(self, request: HttpRequest) -> HttpResponseBase:
        """Everything that the list selects with the same parameters, as CSV. By POST, because it writes the history."""
        require(request.user.has_perms(["accounts.view_creditentry", "accounts.export_creditentry"]))
        form = LedgerForm(request.GET)
        if request.method != "POST" or not form.is_complete:  # the list has the button, or says what is wrong
            return redirect(f"{page_url(CreditEntry, 'changelist')}?{request.GET.urlencode()}")
        lines, name = ledger_export.as_csv(form), ledger_export.file_name(form)
        data = form.cleaned_data
        by_text = ": entries that match a text" if data["request_id"] or data["reference"] else ""
        history.record(
            user=cast(User, request.user),
            action=history.Action.EXPORT,
            model=CreditEntry,
            name="export",
            message=f"Exported {name}{by_text}.",
        )
        return StreamingHttpResponse(
            lines,
            content_type="text/csv; charset=utf-8",
            headers={"Content-Disposition": f'attachment; filename="{name}"'},
        )

    # --- Refund, check a number -----------------------------------------------------------------------------------

    def offers(self, request: HttpRequest, url_path: str, obj: CreditEntry) -> bool:
        if url_path == "refund":
            return _is_search(obj) and _refund_of(obj) is None
        return obj.number_hash is not None

    def action_context(self, request: HttpRequest, url_path: str, obj: CreditEntry) -> dict[str, Any]:
        if url_path != "refund":
            return {}
        context: dict[str, Any] = {"form_options": {"entry": obj, "limited_user": limited_user(request)}}
        if refund := _refund_of(obj):
            instead = {"text": f"{refunded(refund)}.", "url": self.url_of(refund), "label": "Open the refund"}
            return {**context, "instead": instead}
        balance = obj.token.credits - obj.amount
        effect = f"Adds {-obj.amount} credit to {obj.token}: {obj.token.credits:,} becomes {balance:,}."
        related = related_page(request, CreditEntry)
        logged = related.details([obj]).get(obj.pk, "") if related else ""
        about = format_html("Search at {} UTC. {}", f"{obj.created_at:%Y-%m-%d %H:%M:%S}", logged)
        return {**context, "about": about, "explanation": f"{effect} A refund cannot be undone."}

    @form_action("Refund this search", "view", REFUND, form=RefundForm)
    def refund(self, request: HttpRequest, obj: CreditEntry, data: dict[str, Any]) -> str:
        actor, reason = request.user.get_username(), data["reason"]
        try:
            require_allowance(request, -obj.amount)
            refund = credits.refund(entry=obj, actor=actor, reason=reason, may_repeat=data["may_repeat"])
        except (credits.NotRefundable, credits.AllowanceExceeded):
            # A form that was submitted twice has succeeded, and the browser shows only the second response.
            earlier = CreditEntry.objects.filter(refunds=obj, actor=actor, reason=reason).first()
            if earlier is None:
                raise
            refund = earlier
        else:
            message = f"Refunded ledger entry {obj.pk} by entry {refund.pk}. Reason: {refund.reason}"
            self.log_change(request, obj.token, message)
        return f"Refunded; balance {refund.balance_after:,}. Reason: {refund.reason}"

    @form_action("Check a number", "view", form=CompareNumberForm, explanation="The number is not stored.")
    def check_number(self, request: HttpRequest, obj: CreditEntry, data: dict[str, Any]) -> str:
        """Whether the entry's search was for the submitted number."""
        attempt_limits.count_attempt(request, group="ledger-number", rate=COMPARE_RATE, key="user")
        if obj.number_hash is None:
            raise ValidationError("The number of this entry can no longer be checked.")
        if hmac.compare_digest(keyed_hash("number", data["number"]), bytes(obj.number_hash)):
            return "Yes, this search was for that number."
        return Unchanged("No, this search was for another number.")


def _entry_link(entry_id: int | None, text: str = "") -> str:
    return change_link("accounts_creditentry", entry_id, text or f"Ledger entry {entry_id}")
