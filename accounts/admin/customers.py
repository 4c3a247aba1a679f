"""The customers in the console: what each owns, has spent and has left, over all its tokens."""

from collections.abc import Collection, Iterable, Mapping
from datetime import date, datetime, timedelta
from typing import Any, cast

from django import forms
from django.conf import settings
from django.contrib import admin
from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.functional import SimpleLazyObject, cached_property
from django.utils.text import format_lazy

from accounts import (
    customer_figures,
    customers,
    request_statistics,
    sales,
    tokens,
    unknown_charges,
)
from accounts.admin import search_text, token_list
from accounts.admin.base_classes import NewestRowsList
from accounts.admin.charts import requests_chart
from accounts.admin.customer_actions import CustomerActionsAdmin
from accounts.admin.ledger import described
from accounts.customer_figures import CustomerFigures
from accounts.models import ApiToken, CreditEntry, Customer, CustomerContact, UnknownCharge
from accounts.newest import newest
from core import periods
from core.admin import ConditionFilter, ConsoleInline
from core.cells import column, with_whole_dates
from core.edits import EditFormSet

NEWEST_ENTRIES = 20
UNUSED_DAYS = 14
#: How many tokens the page of a customer lists.
MAX_SHOWN = 50
#: Customers whose ids a statement has; for more, the list computes the figures of all.
MAX_NAMED = 500


class CustomerForm(forms.ModelForm):
    class Meta:
        model = Customer
        fields = ("name", "note")
        help_texts = {"name": "Person or company.", "note": "Shown to operators only."}

    def clean_name(self) -> str:
        try:
            return customers.clean_name(self.cleaned_data["name"])
        except ValueError as error:
            raise forms.ValidationError(str(error)) from error


class ContactForm(forms.ModelForm):
    """The fields have labels of their own, because the table's headings do not name them to screen readers."""

    class Meta:
        model = CustomerContact
        fields = ("name", "email", "low_balance")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for field in self.fields.values():
            field.widget.attrs["aria-label"] = field.label


class ContactFormSet(EditFormSet):
    def add_fields(self, form: Any, index: int | None) -> None:
        super().add_fields(form, index)
        if index is not None:  # of a form that the page's script adds
            form.instance.get_inline_title = f"Contact {index + 1}"


class ContactInline(ConsoleInline):
    """The contacts, with the permissions of the customer."""

    model = CustomerContact
    form = ContactForm
    formset = ContactFormSet
    extra = 0
    verbose_name = "contact"
    verbose_name_plural = "contacts"

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return request.user.has_perm("accounts.view_customer")

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return request.user.has_perm("accounts.change_customer" if obj else "accounts.add_customer")

    has_add_permission = has_delete_permission = has_change_permission


class UseFilter(ConditionFilter):
    """Customers that were not charged lately, have no token, run out soon, or have a token that is out of credits."""

    title = parameter_name = "use"

    @cached_property
    def conditions(self) -> dict[str, tuple[str, Q]]:
        now = timezone.now()
        since = now - timedelta(days=UNUSED_DAYS)
        owned = ApiToken.objects.filter(customer=OuterRef("pk"))
        live = owned.filter(is_test=False)
        expiring = live.filter(request_statistics.expiring(now, token_list.SOON_DAYS))
        empty = live.filter(request_statistics.out_of_credits(now))
        unused = Q(created_at__lte=since) & ~Q(Exists(owned.filter(last_charged_at__gt=since)))
        return {
            "unused": (f"not charged for {UNUSED_DAYS} days", unused),
            "no_token": ("no token", ~Q(Exists(owned))),
            "runs_out": (f"running out within {token_list.SOON_DAYS} days", Q()),
            "expiring": (f"a token expiring within {token_list.SOON_DAYS} days", Q(Exists(expiring))),
            "empty": ("a token out of credits", Q(Exists(empty))),
        }

    def queryset(self, request: HttpRequest, queryset: QuerySet[Customer]) -> QuerySet[Customer]:
        found = super().queryset(request, queryset)
        if self.value() == "runs_out":
            found = found.filter(pk__in=token_list.running_out().values("customer"))
        return found


class CustomerList(NewestRowsList):
    """In the order of the columns, a figure has its name in customer_figures.FIGURES."""

    limit = "customers; #id finds any customer"
    ascending_first = ("runs_out",)
    computed = customer_figures.FIGURES
    sorted_with = {("use", "runs_out"): "runs_out", ("use", "expiring"): "runs_out"}

    def sort_values(self, ids: list[int], names: Collection[str]) -> dict[str, dict[int, Any]]:
        named = ids if len(ids) <= MAX_NAMED else None
        customer_figures.by_customer(timezone.now(), named, names, self.figures)
        return {name: {pk: getattr(self.figures[pk], name) for pk in ids} for name in names}

    def with_figures(self) -> QuerySet[Customer]:
        return Customer.objects.prefetch_related("contacts")

    def get_results(self, request: HttpRequest) -> None:
        self.figures = customer_figures.Found()
        super().get_results(request)
        names = {self.get_ordering_field(name) for name in self.list_display} & customer_figures.FIGURES
        customer_figures.by_customer(timezone.now(), [row.pk for row in self.result_list], names, self.figures)
        for row in self.result_list:
            row.figures = self.figures[row.pk]


@admin.register(Customer)
class CustomerAdmin(CustomerActionsAdmin):
    form = CustomerForm
    inlines = (ContactInline,)
    history_fields = ("name",)
    changelist_class = CustomerList
    list_display = ("name", "contact", "token_count", "balance", "searches", "revenue", "last_use", "runs_out")
    sortable_by = ("name", "token_count", "balance", "searches", "revenue", "last_use", "runs_out")
    list_filter = (UseFilter,)
    lookups_allowed = ("use",)
    search_fields = ("name__shown",)
    search_help_text = "Name, contact, #id or token"
    ordering = ("-pk",)

    contact = column(lambda customer: ", ".join(one.email for one in customer.contacts.all()) or "-", "contacts")
    token_count = column(lambda customer: f"{customer.figures.token_count:,}", "tokens", "token_count")
    balance = column(lambda customer: f"{customer.figures.balance:,}", "balance (credits)", "balance")
    searches = column(lambda customer: f"{customer.figures.searches:,}", "searches (30 days)", "searches")
    revenue = column(
        lambda customer: _or_dash(customer.figures.revenue, ",.2f"),
        cast(str, format_lazy("estimated revenue ({}, 30 days)", SimpleLazyObject(lambda: settings.CURRENCY))),
        "revenue",
    )
    last_use = column(
        lambda customer: _or_dash(customer.figures.last_charge, "%Y-%m-%d"), "last charged", "last_charge"
    )
    runs_out = column(lambda customer: _runs_out(customer.figures, timezone.now()), "runs out", "runs_out")

    def get_list_display(self, request: HttpRequest) -> tuple[str, ...]:
        may_see_prices = request.user.has_perm("accounts.view_creditentry")
        return tuple(name for name in self.list_display if name != "revenue" or may_see_prices)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Customer], search_term: str
    ) -> tuple[QuerySet[Customer], bool]:
        """By name, contact or id, or by a token."""
        text = search_term.strip()
        if not text:
            return queryset, False
        condition = search_text.matching_customers(text)
        if not search_text.is_only_id(text):
            try:
                owners = search_text.matching_tokens(text)[0].exclude(customer=None)
            except tokens.WholeToken:  # the list says so; the field for a customer finds none
                return queryset.none(), False
            condition |= Q(pk__in=owners.values("customer"))
        return queryset.filter(condition), False

    def get_inline_formsets(self, *args: Any, **kwargs: Any) -> list[Any]:
        found: list[Any] = super().get_inline_formsets(*args, **kwargs)
        for each in found:  # Django says "another" of the first one too
            each.inline_formset_data = each.inline_formset_data().replace("Add another Contact", "Add a contact")
        return found

    def page_context(self, request: HttpRequest, obj: Customer) -> dict[str, Any]:
        now = timezone.now()
        owned = list(obj.tokens.order_by("-pk"))
        owned.sort(key=lambda token: not token.is_usable_at(now))
        shown = request_statistics.activity_of(owned[:MAX_SHOWN], now)
        days = request_statistics.by_day([token.pk for token in owned], now)
        figures = customer_figures.by_customer(now, [obj.pk], ["runs_out"])[obj.pk]
        return {
            "customer": obj,
            "issue_url": f"{reverse('admin:accounts_apitoken_add')}?customer={obj.pk}",
            "notes": [],
            "balance": figures.balance,
            "has_test_tokens": any(token.is_test for token in owned),
            "usable": sum(token.is_usable_at(now) for token in owned),
            "token_count": figures.token_count,
            "searches_30d": request_statistics.total(days, request_statistics.SEARCHES),
            "runs_out": with_whole_dates(_runs_out(figures, now)),
            "runs_out_note": token_list.runs_out_note(figures.next_end, now),
            "rows": [
                {"token": token, "state": token_list.state_label(token), "runs_out": token_list.runs_out(token, now)}
                for token in shown
            ],
            "more": len(owned) > len(shown),
            "chart": requests_chart(days, label="%b %d", by="day"),
            **_ledger_figures(request, owned, days, now),
        }

    def get_deleted_objects(self, objs: Iterable[Customer], request: HttpRequest) -> Any:
        """Locks the customers first (customers.lock_for_token), so that none gets a token after Django has looked for
        tokens: the database would refuse the deletion. Django's page of the deletion is one transaction."""
        ids = [customer.pk for customer in objs]
        if request.method == "POST":  # the page that asks whether to delete is no transaction
            list(Customer.objects.select_for_update().filter(pk__in=ids).order_by("pk"))
        deleted, counts, perms_needed, protected = super().get_deleted_objects(objs, request)
        # Nobody may delete tokens, which Django would name as the reason.
        return deleted, counts, set() if protected else perms_needed, protected

    def response_action(self, request: HttpRequest, queryset: QuerySet, *args: Any) -> HttpResponse | None:
        """In one transaction, as for get_deleted_objects."""
        with transaction.atomic():
            return super().response_action(request, queryset, *args)


def _or_dash(value: Any, spec: str) -> str:
    return "-" if value is None else format(value, spec)


def _runs_out(figures: CustomerFigures, now: datetime) -> str:
    """Of the first of its usable tokens."""
    if 0 < figures.empty < figures.usable:
        then = f"; next: {token_list.end_text(figures.next_end, now)}" if figures.next_end else ""
        verb = "is" if figures.empty == 1 else "are"
        return f"{figures.empty:,} of {figures.usable:,} tokens {verb} out of credits{then}"
    end = token_list.end_text(figures.runs_out, now) if figures.runs_out else "-"
    return f"first token: {end}" if figures.usable > 1 and not figures.empty else end


def _ledger_figures(
    request: HttpRequest, owned: list[ApiToken], days: Mapping[date, Mapping[str, int]], now: datetime
) -> dict[str, Any]:
    """The newest entries, and sales and revenue, for those who may see the ledger. `days`: requests in the days of
    periods.MONTH, by outcome."""
    if not request.user.has_perm("accounts.view_creditentry"):
        return {}
    ids = [token.pk for token in owned]
    since = periods.MONTH.since(now)
    sold = sales.sales(since, ids)
    lost = unknown_charges.count(since, ids).get(UnknownCharge.Outcome.REFUNDED, 0)
    charged = request_statistics.total(days, request_statistics.CHARGED)
    return {
        "entries": described(request, newest(CreditEntry.objects.select_related("token"), ids, NEWEST_ENTRIES)),
        "sold": sold,
        "revenue": sold.revenue(sales.net_spent(charged, refunded=sold.refunded, lost=lost)),
        "currency": settings.CURRENCY,
    }
