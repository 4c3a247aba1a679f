"""The filters of the ledger, and the forms of its pages."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from django import forms
from django.db.models import Q
from unfold.widgets import UnfoldAdminTextInputWidget

from accounts.admin.credit_forms import AgainForm
from accounts.admin.token_rows import TokenListForm, customer_filter, token_filter
from accounts.models import CreditEntry
from core.forms import SearchedNumberField, TextField
from core.list_fields import choice_field, text_field
from core.long_lists import Filter

#: A choice of `kind` beside the kinds: what operators did.
EXCEPT_SEARCHES = "booked"


class LedgerForm(TokenListForm):
    request_id = text_field("Request id", "X-Request-ID", 64)
    reference = text_field("Reference", "Invoice number", 100)
    kind = choice_field("Kind", [(EXCEPT_SEARCHES, "All except searches"), *CreditEntry.Kind.choices])

    main = ("token", "customer", "request_id", "reference")
    more = "Kind and time"
    specific = ("request_id", "reference")
    noun = "ledger entries"

    @property
    def scope(self) -> str:
        """Whose entries a complete form selects."""
        owners = [f"token #{each.value}" for each in self.filters if each.name == "token" and each.value]
        owners += map(str, self.cleaned_data["customer"])
        return ", ".join(owners) or "all customers"

    def selected(self, data: dict[str, Any]) -> Iterator[Filter]:
        if data["request_id"]:
            yield Filter("request_id", "request_id", data["request_id"])
        if data["reference"]:
            yield Filter("reference", "reference", data["reference"], ~Q(reference=""))
        kind = data["kind"]
        booked = Q() if kind in ("", CreditEntry.Kind.SEARCH) else ~Q(kind=CreditEntry.Kind.SEARCH)
        if data["token"]:
            token = token_filter(data["token"], "entries")
            if booked and token.column and not (data["request_id"] or data["reference"]):
                # Few entries, which have an index of their own.
                token = replace(token, column="", index_condition=booked & Q(token_id=token.value))
            yield token
        if data["customer"]:
            yield customer_filter(data["customer"], "entries")
        if kind:
            yield Filter("kind", index_condition=booked, condition=Q() if kind == EXCEPT_SEARCHES else Q(kind=kind))


class RefundForm(AgainForm):
    """`entry`: the search."""

    again_label = "Refund this search too"
    reason = TextField(
        max_length=200, widget=UnfoldAdminTextInputWidget, help_text="Shown in the ledger, with your name."
    )

    def __init__(self, *args: Any, entry: CreditEntry, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.entry = entry

    def clean(self) -> None:
        self.check_allowance(CreditEntry.objects.filter(refunds=self.entry), amount=-self.entry.amount)


class CompareNumberForm(forms.Form):
    number = SearchedNumberField(label="Number", max_length=40, help_text="With the country code.")
