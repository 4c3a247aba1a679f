"""The ledger in the console: why a token was charged, refunds, and the export. Nobody changes an entry."""

import hmac
from typing import Any, cast

from django.conf import settings
from django.contrib import admin, messages
from django.contrib.auth.models import User
from django.db.models import Prefetch, QuerySet
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect
from django.urls import URLPattern, path

from accounts import credits
from accounts.admin import ledger_export
from accounts.admin.base import TokenListAdmin, require_allowance
from accounts.admin.ledger_queries import CompareNumberForm, LedgerForm, RefundForm
from accounts.models import CreditEntry
from core import history, throttling
from core.admin import RELATED_PAGES, change_link, column, html_link, page_url, require, submitted
from core.hashing import keyed_hash

#: Numbers that one user may compare with entries, and in how many seconds: trying them all would reveal the number.
COMPARE_RATE = (10, 60)


def _request_link(entry: CreditEntry) -> str:
    """A link to the request's page, or the request id of an entry that has none."""
    if entry.kind != CreditEntry.Kind.SEARCH or not entry.request_id:
        return entry.request_id or "-"
    return html_link(RELATED_PAGES[CreditEntry].url(entry), entry.request_id)


@admin.register(CreditEntry)
class CreditEntryAdmin(TokenListAdmin):
    list_form = LedgerForm
    list_display = (
        *("when", "token_link", "kind_text", "signed_amount", "balance", "request_link", "reason_text", "by"),
        "reference_text",
    )
    list_display_links = ("when",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[CreditEntry]:
        refunds = CreditEntry.objects.filter(refunds__isnull=False).only("refunds")
        return super().get_queryset(request).prefetch_related(Prefetch("refunded_by", refunds))

    def has_refund_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perms(["accounts.view_creditentry", "accounts.refund_creditentry"])

    # --- Columns and fields ---------------------------------------------------------------------------------------

    signed_amount = column(lambda entry: f"{entry.amount:+,}" if entry.amount else "0", "credits")
    balance = column(lambda entry: f"{entry.balance_after:,}", "balance")
    request_link = column(_request_link, "request id")
    reason_text = column(lambda entry: entry.reason or "-", "reason")
    by = column(lambda entry: entry.actor or "-", "by")
    reference_text = column(lambda entry: entry.reference or "-", "reference")
    kind_text = column(
        lambda entry: f"{entry.get_kind_display()}{', refunded' if entry.refunded_by.all() else ''}", "kind"
    )
    paid = column(lambda entry: f"{entry.price.normalize():,f} {settings.CURRENCY}", "price")
    number = column(
        lambda entry: (
            "Erased: it can no longer be checked."
            if entry.number_hash is None
            else "Only a keyed hash is stored; you can check a number against it."
        ),
        "number",
    )
    refund_link = column(
        lambda entry: next((_entry_link(refund.pk) for refund in entry.refunded_by.all()), "Not refunded."),
        "refunded by",
    )
    search_link = column(lambda entry: _entry_link(entry.refunds_id), "refund of")

    def get_fields(self, request: HttpRequest, obj: CreditEntry | None = None) -> tuple[str, ...]:
        fields = ("when", "token_link", "kind", "signed_amount", "balance")
        if obj is not None and obj.kind == CreditEntry.Kind.SEARCH:
            return (*fields, "request_link", "number", "refund_link")
        refund = obj is not None and obj.kind == CreditEntry.Kind.REFUND
        priced = () if obj is None or obj.price is None else ("paid",)
        return (*fields, *priced, "actor", "reason", "search_link" if refund else "reference")

    # --- Pages ----------------------------------------------------------------------------------------------------

    def get_urls(self) -> list[URLPattern]:
        def page(route: str, view: Any, name: str) -> URLPattern:
            return path(route, self.admin_site.admin_view(view), name=f"accounts_creditentry_{name}")

        return [
            page("export/", self.export_view, "export"),
            page("<int:entry_id>/refund/", self.refund_view, "refund"),
            page("<int:entry_id>/number/", self.number_view, "number"),
            *super().get_urls(),
        ]

    def page_context(self, request: HttpRequest, obj: CreditEntry) -> dict[str, Any]:
        return {
            "title": str(obj),
            "subtitle": None,
            "may_refund": self.has_refund_permission(request) and _not_refundable(obj) is None,
            "number_form": CompareNumberForm() if obj.number_hash is not None else None,
        }

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

    def refund_view(self, request: HttpRequest, entry_id: int) -> HttpResponse:
        require(self.has_refund_permission(request))
        entry = get_object_or_404(CreditEntry.objects.select_related("token"), pk=entry_id)

        def perform(data: dict[str, Any]) -> HttpResponse:
            actor, reason = request.user.get_username(), data["reason"]
            try:
                require_allowance(request, -entry.amount)
                refund = credits.refund(entry=entry, actor=actor, reason=reason)
            except (credits.NotRefundable, credits.AllowanceExceeded):
                # A form that was submitted twice has succeeded, and the browser shows only the second response.
                earlier = entry.refunded_by.filter(actor=actor, reason=reason).first()
                if earlier is None:
                    raise
                refund = earlier
            else:
                self.log_change(request, entry, f"Refunded by ledger entry {refund.pk}. {refund.reason}")
            self.message_user(request, f"Refunded; balance {refund.balance_after:,}.", messages.SUCCESS)
            return redirect(page_url(CreditEntry, "change", refund.pk))

        if request.method != "POST" and (problem := _not_refundable(entry)):
            self.message_user(request, problem, messages.WARNING)
            return redirect(page_url(CreditEntry, "change", entry.pk))
        form = RefundForm(submitted(request))
        return self.form_page(request, form, perform, title="Refund a search", button="Refund", original=entry)

    def number_view(self, request: HttpRequest, entry_id: int) -> HttpResponse:
        """Whether the entry's search was for the submitted number, which is neither stored nor shown again."""
        require(self.has_view_permission(request))
        entry = get_object_or_404(CreditEntry.objects.select_related("token"), pk=entry_id, kind="search")
        context = {**self.page_context(request, entry), "title": "Check a number", "original": entry}
        if request.method != "POST":
            return self.render_page(request, "number.html", **context)
        form = CompareNumberForm(request.POST)
        try:
            throttling.count_attempt(request, group="ledger-number", rate=COMPARE_RATE, key="user")
        except throttling.TooManyAttempts as error:
            context["errors"] = [f"Too many numbers checked. Try again in {error.wait_s} s."]
            response = self.render_page(request, "number.html", **context)
            response.status_code, response["Retry-After"] = 429, str(error.wait_s)
            return response
        if entry.number_hash is None:
            context["answer"] = "erased"
        elif form.is_valid():
            number_hash = keyed_hash("number", form.cleaned_data["number"])
            context["answer"] = "yes" if hmac.compare_digest(number_hash, bytes(entry.number_hash)) else "no"
        else:
            context["errors"] = form.errors["number"]
        return self.render_page(request, "number.html", **context)


def _not_refundable(entry: CreditEntry) -> str | None:
    if entry.kind != CreditEntry.Kind.SEARCH:
        return "Only a search can be refunded. Use Adjust on the token's page instead."
    return "This search has already been refunded." if entry.refunded_by.exists() else None


def _entry_link(entry_id: int | None) -> str:
    return change_link("accounts_creditentry", entry_id, f"Ledger entry {entry_id}")
