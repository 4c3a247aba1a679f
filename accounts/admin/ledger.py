"""The ledger in the console: why a token was charged, refunds, and the export. Nobody changes a row."""

import hmac
import re
from typing import Any, cast

from django.contrib import admin, messages
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied, ValidationError
from django.db.models import Prefetch, QuerySet
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect
from django.urls import URLPattern, path, reverse
from django.utils.functional import cached_property
from django.utils.html import format_html_join
from django.utils.safestring import mark_safe

from accounts import brake, credits, history
from accounts.admin import base, exports
from accounts.admin.base import (
    FirstRowsPaginator,
    IndexedChangeList,
    TokenRowsAdmin,
    link,
    require_allowance,
)
from accounts.hashing import keyed_hash
from accounts.ledger_forms import WORDS, LedgerForm, NumberForm, RefundForm
from accounts.models import ApiToken, CreditEntry

#: So many numbers may one user compare with rows in so many seconds: whoever tries them all would learn the number.
COMPARE_RATE = (10, 60)


class NewestRowsPaginator(FirstRowsPaginator):
    @cached_property
    def _counted(self) -> int:
        """In the list's order, and of its index alone: else PostgreSQL may count by reading the table."""
        rows: Any = self.object_list
        if rows.model is not CreditEntry:  # a row's history is paged by this too
            return super()._counted
        *order, _key = rows.query.order_by
        return rows.order_by(*order).values("created_at")[: base.MAX_LISTED + 1].count()


class LedgerChangeList(IndexedChangeList):
    """Lists what LedgerForm chooses, and nothing by any other condition."""

    form: LedgerForm

    def get_filters_params(self, params: Any = None) -> dict[str, Any]:
        others = super().get_filters_params(params)
        return {name: value for name, value in others.items() if name not in LedgerForm.base_fields}

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> QuerySet[CreditEntry]:
        self.form = LedgerForm(request.GET)
        return self.form.rows(super().get_queryset(request, exclude_parameters))

    def get_results(self, request: HttpRequest) -> None:
        """Few rows are not paged, and without a limit PostgreSQL may take another way than the index to them."""
        super().get_results(request)
        if not self.multi_page:
            self.result_list = self.result_list[: self.list_max_show_all]

    def candidates(self) -> list[tuple[ApiToken, str]]:
        """With the address of each one's rows, the other conditions kept."""
        return [
            (token, self.get_query_string({"token__id__exact": token.pk}, remove=["q"]))
            for token in self.form.candidates
        ]

    def sifted_sentence(self) -> str:
        return f"Names are looked for among the newest {self.form.sifted:,} tokens; #id finds every one."

    def export_address(self) -> str:
        return reverse("admin:accounts_creditentry_export") + self.get_query_string(remove=["o", "all"])


@admin.register(CreditEntry)
class CreditEntryAdmin(TokenRowsAdmin):
    list_display = ("when", "account", "what", "signed", "balance", "details", "refunded")
    list_before_template = "admin/accounts/creditentry/filters.html"
    ordering = ("-created_at",)  # and by pk within one moment, which Django adds
    paginator = NewestRowsPaginator

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[IndexedChangeList]:
        return LedgerChangeList

    def get_queryset(self, request: HttpRequest) -> QuerySet[CreditEntry]:
        refunds = CreditEntry.objects.filter(refunds__isnull=False).only("refunds")
        return super().get_queryset(request).prefetch_related(Prefetch("refunded_by", refunds))

    def has_refund_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perms(["accounts.view_creditentry", "accounts.refund_creditentry"])

    def has_export_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perms(["accounts.view_creditentry", "accounts.export_creditentry"])

    # --- Columns and fields ---------------------------------------------------------------------------------------

    @admin.display(description="what happened")
    def what(self, entry: CreditEntry) -> str:
        return WORDS[entry.kind]

    @admin.display(description="credits")
    def signed(self, entry: CreditEntry) -> str:
        return f"{entry.amount:+,}"

    @admin.display(description="balance after")
    def balance(self, entry: CreditEntry) -> str:
        return f"{entry.balance_after:,}"

    @admin.display(description="details")
    def details(self, entry: CreditEntry) -> str:
        """Its id may break: as one long word it pushes the table out of the window."""
        if entry.kind == CreditEntry.Kind.SEARCH:
            parts = re.findall(".{1,16}", entry.request_id)
            return format_html_join(mark_safe("<wbr>"), "{}", ((part,) for part in parts)) or "-"
        return ", ".join(filter(None, (entry.reason, entry.actor, entry.reference))) or "-"

    @admin.display(description="refunded")
    def refunded(self, entry: CreditEntry) -> str:
        return "yes" if entry.refunded_by.all() else "-"

    @admin.display(description="by")
    def who(self, entry: CreditEntry) -> str:
        return entry.actor or "-"

    @admin.display(description="why")
    def why(self, entry: CreditEntry) -> str:
        return entry.reason or "-"

    @admin.display(description="number")
    def number(self, entry: CreditEntry) -> str:
        if entry.number_hash is None:
            return "Forgotten: nothing here says any more which number it was."
        return "Not stored. A keyed hash of it is, which a number can be compared with, but not read from."

    @admin.display(description="given back by")
    def refund_link(self, entry: CreditEntry) -> str:
        refund = next(iter(entry.refunded_by.all()), None)
        return _row_link(refund.pk) if refund else "Not refunded."

    @admin.display(description="gives back")
    def search_link(self, entry: CreditEntry) -> str:
        return _row_link(entry.refunds_id) if entry.refunds_id else "-"

    def get_fields(self, request: HttpRequest, obj: CreditEntry | None = None) -> tuple[str, ...]:
        always = ("when", "token_link", "what", "signed", "balance")
        if obj is not None and obj.kind == CreditEntry.Kind.SEARCH:
            return (*always, "request_id", "number", "refund_link")
        booked = (*always, "who", "why")
        if obj is not None and obj.kind == CreditEntry.Kind.REFUND:
            return (*booked, "search_link")
        return (*booked, "reference")

    def get_readonly_fields(self, request: HttpRequest, obj: CreditEntry | None = None) -> tuple[str, ...]:
        return self.get_fields(request, obj)

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

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        mine = {"title": "Ledger", "may_export": self.has_export_permission(request)}
        return super().changelist_view(request, {**mine, **(extra_context or {})})

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        entry = self.get_object(request, object_id)
        mine: dict[str, Any] = {}
        if entry is not None:
            search = entry.kind == CreditEntry.Kind.SEARCH
            mine = {
                "title": f"Ledger row {entry.pk}",
                "subtitle": None,
                "text": told(entry),
                "may_refund": self._may_refund(request, entry),
                "number_form": NumberForm() if search and entry.number_hash is not None else None,
            }
        return super().change_view(request, object_id, form_url, {**mine, **(extra_context or {})})

    def _may_refund(self, request: HttpRequest, entry: CreditEntry) -> bool:
        return self.has_refund_permission(request) and _not_refundable(entry) is None

    def export_view(self, request: HttpRequest) -> HttpResponseBase:
        """What the list would show with the same parameters, all of it, as CSV. By POST, for it writes the history."""
        if not self.has_export_permission(request):
            raise PermissionDenied
        form = LedgerForm(request.GET)
        if request.method != "POST" or not form.exportable:  # the list has the button, or says what is wrong
            return redirect(f"{reverse('admin:accounts_creditentry_changelist')}?{request.GET.urlencode()}")
        lines = exports.as_csv(form)
        by_text = ": rows that a text found" if form.keys is not None else ""
        history.record(
            user=cast(User, request.user),
            action=history.Action.EXPORT,
            kind=CreditEntry,
            name="export",
            message=f"Exported {form.file_name()}{by_text}.",
        )
        return StreamingHttpResponse(
            lines,
            content_type="text/csv; charset=utf-8",
            headers={"Content-Disposition": f'attachment; filename="{form.file_name()}"'},
        )

    def refund_view(self, request: HttpRequest, entry_id: int) -> HttpResponse:
        if not self.has_refund_permission(request):
            raise PermissionDenied
        entry = get_object_or_404(CreditEntry.objects.select_related("token"), pk=entry_id)

        def act(data: dict[str, Any]) -> HttpResponse:
            actor, reason = request.user.get_username(), data["reason"]
            try:
                require_allowance(request, -entry.amount)
                refund = credits.refund(entry=entry, actor=actor, reason=reason)
            except (credits.NotRefundable, ValidationError):
                # A form that was sent twice is done, and who sent it sees only the second answer.
                done = entry.refunded_by.filter(actor=actor, reason=reason).first()
                if done is None:
                    raise
                refund = done
            else:
                self.log_change(request, entry, f"Refunded by ledger row {refund.pk}. {refund.reason}")
            sentence = f"Refunded: {_credits(refund.amount, '+,')}, balance {refund.balance_after:,}."
            self.message_user(request, sentence, messages.SUCCESS)
            return redirect(_page("creditentry_change", refund.pk))

        if request.method != "POST" and (problem := _not_refundable(entry)):
            self.message_user(request, problem, messages.WARNING)
            return redirect(_page("creditentry_change", entry.pk))
        form = RefundForm(request.POST if request.method == "POST" else None)
        return self.ask(request, form, act, title="Refund a search", button="Refund", entry=entry, text=told(entry))

    def number_view(self, request: HttpRequest, entry_id: int) -> HttpResponse:
        """Whether the row's search was for the number that is sent, which is neither kept nor shown again."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        entry = get_object_or_404(CreditEntry.objects.select_related("token"), pk=entry_id, kind="search")
        answer = wait_s = None
        errors: list[str] = []
        if request.method == "POST":
            form = NumberForm(request.POST)
            try:
                brake.count_attempt(request, group="ledger-number", rate=COMPARE_RATE, key="user")
            except brake.TooManyAttempts as error:
                wait_s = error.wait_s
            if wait_s is not None:
                errors = [f"Too many numbers were compared. Try again in {wait_s} second{'' if wait_s == 1 else 's'}."]
            elif entry.number_hash is None:
                answer = "forgotten"
            elif form.is_valid():
                asked = keyed_hash("number", form.cleaned_data["number"])
                answer = "yes" if hmac.compare_digest(asked, bytes(entry.number_hash)) else "no"
            else:
                errors = [str(error) for error in form.errors["number"]]
        context = {
            "entry": entry,
            "form": NumberForm(),
            "answer": answer,
            "errors": errors,
            "text": told(entry),
            "may_refund": self._may_refund(request, entry),
        }
        response = self.page(request, "number.html", title="Was it this number?", **context)
        if wait_s is not None:
            response.status_code, response["Retry-After"] = 429, str(wait_s)
        return response


def told(entry: CreditEntry) -> str:
    """What the row says, in sentences."""
    when = f"{entry.created_at:%Y-%m-%d} at {entry.created_at:%H:%M:%S} UTC"
    after = f"The balance after it was {_credits(entry.balance_after)}."
    if entry.kind == CreditEntry.Kind.SEARCH:
        request = f" Request id: {entry.request_id}." if entry.request_id else ""
        cost = _credits(-entry.amount)
        return f"One search by {entry.token} was answered on {when} and cost {cost}.{request} {after}"
    by = f" by {entry.actor}" if entry.actor else ""
    amount = _credits(entry.amount)
    done = {
        "issue": f"{entry.token} was issued{by} on {when} with {amount}.",
        "top-up": f"{entry.token} was topped up{by} on {when} with {amount}.",
        "adjustment": f"The balance of {entry.token} was adjusted{by} on {when} by {_credits(entry.amount, '+,')}.",
        "refund": f"{amount} for one search went back to {entry.token} on {when}{by.replace(' ', ', booked ', 1)}.",
    }
    return f"{done[entry.kind]} {after}"


def _credits(amount: int, form: str = ",") -> str:
    return f"{amount:{form}} credit{'' if abs(amount) == 1 else 's'}"


def _not_refundable(entry: CreditEntry) -> str | None:
    if entry.kind != CreditEntry.Kind.SEARCH:
        return "Only a search is refunded: adjust the token's balance instead."
    return "This search was refunded before." if CreditEntry.objects.filter(refunds=entry).exists() else None


def _page(name: str, pk: int) -> str:
    return reverse(f"admin:accounts_{name}", args=[pk])


def _row_link(pk: int) -> str:
    return link(_page("creditentry_change", pk), f"Ledger row {pk}")
