"""The ledger as a long list, and the forms of its pages."""

from typing import Any

from django import forms
from django.db.models import Q, QuerySet
from django.urls import reverse
from django.utils.html import format_html
from unfold.widgets import UnfoldAdminTextInputWidget

from accounts.admin.base import TokenListForm, token_match
from accounts.models import CreditEntry, Customer
from accounts.newest import NEWEST_FIRST, newest_ids
from core.admin import html_link
from core.forms import PhoneNumberField
from core.long_lists import Filter, LongList, Match, choice_field, exactly, text_field

#: A choice of `kind` beside the kinds: what operators did.
EXCEPT_SEARCHES = "booked"


class LedgerForm(TokenListForm):
    request_id = text_field("Request id", "X-Request-ID", 64)
    reference = text_field("Reference", "Of a top-up, e.g. an invoice", 100)
    kind = choice_field("Kind", [(EXCEPT_SEARCHES, "All except searches"), *CreditEntry.Kind.choices])
    customer = forms.ModelChoiceField(
        Customer.objects.all(),
        required=False,
        widget=forms.HiddenInput,
        error_messages={"invalid_choice": "This customer does not exist."},
    )

    main = ("token", "request_id", "reference")
    more = "Kind and time"


class RefundForm(forms.Form):
    reason = forms.CharField(
        max_length=200, widget=UnfoldAdminTextInputWidget, help_text="Shown in the ledger, with your name."
    )


class CompareNumberForm(forms.Form):
    number = PhoneNumberField(
        label="Number",
        max_length=40,
        help_text="With the country code.",
        error_messages={"invalid": "Enter 7 to 15 digits, starting with the country code."},
    )


def _of_customer(data: dict[str, Any]) -> Match | None:
    """The entries of all its tokens."""
    if (customer := data["customer"]) is None:
        return None
    ids = list(customer.tokens.values_list("pk", flat=True))

    def newest(rows: QuerySet, limit: int) -> QuerySet:
        return rows.filter(pk__in=newest_ids(rows, ids, limit)).order_by(*NEWEST_FIRST)

    link = html_link(reverse("admin:accounts_customer_change", args=[customer.pk]), customer)
    return Match(ids, newest=newest, note=format_html("Only entries of tokens of {}.", link))


def _of_kind(data: dict[str, Any]) -> Match | None:
    kind = data["kind"]
    if kind == CreditEntry.Kind.SEARCH:  # almost all entries
        return Match(condition=Q(kind=kind), is_indexed=False, is_common=True)
    return Match(condition=Q() if kind == EXCEPT_SEARCHES else Q(kind=kind)) if kind else None


LEDGER = LongList(
    CreditEntry,
    LedgerForm,
    (
        Filter("request_id", "creditentry_request_created", exactly("request_id")),
        Filter("reference", "creditentry_reference_created", exactly("reference")),
        Filter("token", "creditentry_token_created", token_match("entries")),
        Filter("customer", "creditentry_token_created", _of_customer),
        Filter("kind", "creditentry_booked_created", _of_kind),
    ),
    noun="ledger entries",
)
