"""The actions on a customer's page: top up a token, and set the webhook for low-balance notices."""

from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse
from unfold import widgets
from unfold.enums import ActionVariant

from accounts import credits, customer_webhooks
from accounts.admin import token_list
from accounts.admin.base import ShownAdmin, TokenRefusingAdmin, allowance, limited_user
from accounts.admin.credit_forms import CustomerTopUpForm
from accounts.admin.top_ups import TOP_UP, TOP_UP_EXPLANATION, record
from accounts.models import CreditEntry, Customer
from core.admin import Secret, Unchanged, form_action
from core.forms import ConfirmationField, TextField

EDIT = "accounts.view_customer", "accounts.change_customer"


class WebhookForm(forms.Form):
    url = TextField(
        label="URL",
        max_length=500,
        required=False,
        widget=widgets.UnfoldAdminTextInputWidget(attrs={"inputmode": "url", "data-not-kept": ""}),
    )


class RemoveWebhookForm(forms.Form):
    confirmed = ConfirmationField(label="I understand that the webhook gets no more notices and its secret is deleted.")


class CustomerActionsAdmin(ShownAdmin, TokenRefusingAdmin):
    actions_detail = ("top_up", "edit", "webhook", "remove_webhook")

    def offers(self, request: HttpRequest, url_path: str, obj: Customer) -> bool:
        if url_path == "top-up":
            return token_list.usable(obj).exists()
        if url_path == "remove-webhook":
            return bool(customer_webhooks.label(obj))
        return True

    def action_context(self, request: HttpRequest, url_path: str, obj: Customer) -> dict[str, Any]:
        if url_path == "top-up":
            options = {"targets": token_list.usable(obj), "limited_user": limited_user(request)}
            return {"form_options": options, "explanation": allowance(request)}
        if url_path == "webhook" and (label := customer_webhooks.label(obj)):
            return {"explanation": f"Current URL: {label}. Leave the URL empty to keep it and only replace the secret."}
        if url_path == "remove-webhook":
            return {"explanation": f"{label} gets no more notices."} if (label := customer_webhooks.label(obj)) else {}
        return {}

    @form_action(
        "Top up",
        "view",
        "accounts.view_apitoken",
        TOP_UP,
        form=CustomerTopUpForm,
        explanation=TOP_UP_EXPLANATION,
        variant=ActionVariant.PRIMARY,
    )
    def top_up(self, request: HttpRequest, obj: Customer, data: dict[str, Any]) -> str:
        self._require_unused(obj, data)
        message = record(self, request, credits.top_up, data["token"], data)
        return type(message)(f"{data['token']}: {message}")

    def _require_unused(self, customer: Customer, data: dict[str, Any]) -> None:
        """Raises ValueError if the reference has topped up another token: the ledger refuses it for the same token
        only, and the page lets the token be changed. An operator's own reference may be used for other customers; the
        page's was used by this page, also if that token has another customer now."""
        list(Customer.objects.select_for_update(no_key=True).filter(pk=customer.pk))  # one submission at a time
        owned = {"token__customer": customer} if data["own_reference"] else {}
        used = CreditEntry.objects.filter(reference=data["reference"], **owned)
        entry = used.exclude(token=data["token"]).select_related("token").order_by("created_at").first()
        if entry is None:
            return
        if data["own_reference"]:
            raise ValueError(
                f"Reference {entry.reference} has already topped up {entry.token} (ledger entry {entry.pk}). To use it "
                "for another token too, top up on that token's page."
            )
        raise ValueError(
            f"This page has already topped up {entry.token} (ledger entry {entry.pk}). Open it again to top up another "
            "token."
        )

    # --- The webhook for low-balance notices -----------------------------------------------------------------------

    @form_action(
        "Set webhook",
        *EDIT,
        form=WebhookForm,
        explanation=(
            "The customer's own system gets the low-balance notices of all its tokens at this URL. Saving creates a "
            "new secret, which signs them. You will see it once, and the one before becomes invalid."
        ),
    )
    def webhook(self, request: HttpRequest, obj: Customer, data: dict[str, Any]) -> HttpResponse:
        secret = customer_webhooks.save(customer=obj, url=data["url"])
        label = customer_webhooks.label(obj)
        self.log_change(request, obj, f"Set the webhook {label}, with a new secret.")
        return self.shown_once_page(
            request,
            obj,
            Secret("webhook_secret", "Secret", secret, "Copy secret"),
            title="Secret of the webhook",
            warning="Copy this secret now. It will not be shown again.",
            note=f"It signs the notices to {label}.",
        )

    @form_action("Remove webhook", *EDIT, form=RemoveWebhookForm, variant=ActionVariant.DANGER)
    def remove_webhook(self, request: HttpRequest, obj: Customer, data: dict[str, Any]) -> str:
        if not customer_webhooks.remove(customer=obj):
            return Unchanged("This customer has no webhook.")
        self.log_change(request, obj, "Removed the webhook.")
        return "The webhook is removed."
