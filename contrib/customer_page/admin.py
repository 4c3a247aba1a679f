"""The actions on a customer's page in the console that make and revoke links."""

from typing import Any

from django import forms
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from unfold import widgets
from unfold.enums import ActionVariant

from accounts.models import Customer
from contrib.customer_page import links
from core.admin import ConsoleAdmin, Secret, form_action
from core.forms import ConfirmationField, WholeNumberField

_EDIT = "accounts.view_customer", "accounts.change_customer"
#: The ends of the actions' URLs.
_PATHS = ("link", "revoke-links")
_OFF = "Customers' pages are off: set CUSTOMER_PAGES=true in the service's environment, and start it again."


class LinkForm(forms.Form):
    days = WholeNumberField(
        label="Valid for (days)",
        min_value=1,
        max_value=links.MAX_DAYS,
        initial=links.DEFAULT_DAYS,
        widget=widgets.UnfoldAdminIntegerFieldWidget,
        help_text=f"1 to {links.MAX_DAYS}.",
    )


class RevokeLinksForm(forms.Form):
    confirmed = ConfirmationField(label="I understand that all links to this customer's page stop working.")


class LinkActions(ConsoleAdmin):
    actions_detail = ("link", "revoke_links")

    def offers(self, request: HttpRequest, url_path: str, obj: Customer) -> bool:
        """Where customers' pages are off, `link` says so."""
        if url_path == "revoke-links":
            return bool(settings.CUSTOMER_PAGES)
        return url_path == "link" or super().offers(request, url_path, obj)

    def action_context(self, request: HttpRequest, url_path: str, obj: Customer) -> dict[str, Any]:
        if url_path not in _PATHS:
            return super().action_context(request, url_path, obj)
        return {} if settings.CUSTOMER_PAGES else {"instead": {"text": _OFF}}

    @form_action(
        "Create link",
        *_EDIT,
        form=LinkForm,
        explanation=(
            "Makes a link to the customer's own page. Anyone who has it sees the tokens' names, states, balances and "
            "limits, their use and their ledger entries with your references, without a login. It shows no phone "
            "number, note, reason or price. You will see the link once."
        ),
    )
    def link(self, request: HttpRequest, obj: Customer, data: dict[str, Any]) -> HttpResponse:
        if not settings.CUSTOMER_PAGES:
            raise ValueError(_OFF)
        days = data["days"]
        link = reverse("customer", args=[links.make(customer=obj, days=days)])
        url = f"{settings.PUBLIC_URL or request.build_absolute_uri('/')[:-1]}{link}"
        self.log_change(request, obj, f"Made a link to the customer's page, valid for {days} days.")
        return self.shown_once_page(
            request,
            obj,
            Secret("customer_link", "Link", url, "Copy link"),
            title="Link to the customer's page",
            warning="Copy this link now. It is not stored and will not be shown again.",
            note=f"It works for {days} day{'' if days == 1 else 's'}, for anyone who has it, until you revoke the "
            "links of this customer.",
        )

    @form_action(
        "Revoke links",
        *_EDIT,
        form=RevokeLinksForm,
        variant=ActionVariant.DANGER,
    )
    def revoke_links(self, request: HttpRequest, obj: Customer, data: dict[str, Any]) -> str:
        links.revoke(customer=obj)
        self.log_change(request, obj, "Revoked all links to the customer's page.")
        return "All links to this customer's page are revoked."
