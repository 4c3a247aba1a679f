"""The lists of rows about tokens, such as the ledger, and the filters that they have."""

from typing import Any

from django import forms
from django.db.models import Q
from django.utils.html import format_html

from accounts.admin import search_text
from accounts.admin.base_classes import TokenRefusingAdmin, TokenRowsAdmin
from accounts.admin.search_text import matching_customers, matching_tokens, token_text_problem
from accounts.admin.suggest_fields import UNKNOWN, CustomerField
from accounts.models import Customer
from accounts.newest import newest
from core.cells import change_link
from core.list_fields import text_field
from core.long_list_pages import LongListAdmin
from core.long_lists import Filter, ListForm

#: How many tokens or customers that a text matches are offered.
MAX_CANDIDATES = 50


class CustomerFilterField(CustomerField):
    """Cleaned to the customers that the text may mean: the one with this name or id, or those that the field suggests,
    at most MAX_CANDIDATES."""

    def to_python(self, value: Any) -> Any:
        try:
            customer = super().to_python(value)
        except forms.ValidationError as error:
            found = []
            if error.code == UNKNOWN:
                matching = Customer.objects.filter(matching_customers(str(value).strip()))
                found = list(matching.order_by("name", "pk")[:MAX_CANDIDATES])
            if not found:
                raise
            return found
        return [customer] if customer else []


class TokenListForm(ListForm):
    token = text_field("Token", "Name, #id, last 4", 200)

    customer = CustomerFilterField()

    def url_parameters(self) -> dict[str, str]:
        """The customer by id, if it is one."""
        found = self.cleaned_data["customer"]
        return super().url_parameters() | ({"customer": str(found[0].pk)} if len(found) == 1 else {})

    def clean_token(self) -> str:
        text: str = self.cleaned_data["token"]
        if problem := token_text_problem(text):
            raise forms.ValidationError(problem)
        return text


def _choice(name: str, found: list[Any], matching: str, warning: str = "") -> Filter:
    """Offers what was found for the field `name`, in words `matching`, and selects nothing."""
    count = f"At least {len(found)}" if len(found) == MAX_CANDIDATES else len(found)
    # With "#": a number alone also finds the tokens whose names contain it.
    choices = [(f"#{each.pk}", str(each)) for each in found]
    return Filter(name, choices=choices, note=f"{count} {matching}. Select one:" if found else "", warning=warning)


def token_filter(text: str, noun: str) -> Filter:
    """The rows of the token that `text` means, in a list of `noun`."""
    matching, is_limited = matching_tokens(text)
    limit = f"Names are searched among the newest {search_text.MAX_SCANNED:,} tokens; #id finds any token."
    warning = limit if is_limited else ""
    found = list(matching.order_by("name", "pk")[:MAX_CANDIDATES])
    if len(found) != 1:
        return _choice("token", found, f'tokens match "{text}"', warning)
    link = change_link("accounts_apitoken", found[0].pk, found[0])
    return Filter("token", "token_id", found[0].pk, note=format_html("Only {} of {}.", noun, link), warning=warning)


def customer_filter(found: list[Customer], noun: str, *, is_only_filter: bool = True) -> Filter:
    """The rows of the customer's tokens, in a list of `noun`. With other filters, which may have few rows, the list
    looks for these rows among those of the other filters. Of several customers, their choice."""
    if len(found) > 1:
        return _choice("customer", found, "customers match")
    [customer] = found
    ids = list(customer.tokens.values_list("pk", flat=True))
    link = change_link("accounts_customer", customer.pk, customer)
    note = format_html("Only {} of tokens of {}.", noun, link)
    if is_only_filter:
        return Filter("customer", "token_id", ids, newest=newest, note=note)
    return Filter("customer", condition=Q(token_id__in=ids), note=note)


class TokenListAdmin(TokenRefusingAdmin, LongListAdmin, TokenRowsAdmin):
    """The list of the ledger, and those of add-ons."""

    list_select_related = ("token__customer",)
