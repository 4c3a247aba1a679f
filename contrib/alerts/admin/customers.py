"""The actions on a customer's page that set and remove the webhook for low-balance notices."""

from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse
from unfold import widgets
from unfold.enums import ActionVariant

from accounts.models import Customer
from contrib.alerts import customer_webhooks
from core.admin import ConsoleAdmin, Secret, Unchanged, form_action
from core.forms import ConfirmationField, TextField

_EDIT = "accounts.view_customer", "accounts.change_customer"


class WebhookForm(forms.Form):
    url = TextField(
        label="URL",
        max_length=500,
        required=False,
        widget=widgets.UnfoldAdminTextInputWidget(attrs={"inputmode": "url", "data-not-kept": ""}),
    )


class RemoveWebhookForm(forms.Form):
    confirmed = ConfirmationField(label="I understand that the webhook gets no more notices and its secret is deleted.")


class WebhookActions(ConsoleAdmin):
    actions_detail = ("webhook", "remove_webhook")

    def page_context(self, request: HttpRequest, obj: Customer) -> dict[str, Any]:
        context = super().page_context(request, obj)
        label = customer_webhooks.label(obj)
        return {**context, "notes": [*context["notes"], f"Low-balance webhook: {label}"]} if label else context

    def offers(self, request: HttpRequest, url_path: str, obj: Customer) -> bool:
        if url_path == "remove-webhook":
            return bool(customer_webhooks.label(obj))
        return super().offers(request, url_path, obj)

    def action_context(self, request: HttpRequest, url_path: str, obj: Customer) -> dict[str, Any]:
        if url_path == "webhook" and (label := customer_webhooks.label(obj)):
            return {"explanation": f"Current URL: {label}. Leave the URL empty to keep it and only replace the secret."}
        if url_path == "remove-webhook" and (label := customer_webhooks.label(obj)):
            return {"explanation": f"{label} gets no more notices."}
        return super().action_context(request, url_path, obj)

    @form_action(
        "Set webhook",
        *_EDIT,
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

    @form_action("Remove webhook", *_EDIT, form=RemoveWebhookForm, variant=ActionVariant.DANGER)
    def remove_webhook(self, request: HttpRequest, obj: Customer, data: dict[str, Any]) -> str:
        if not customer_webhooks.remove(customer=obj):
            return Unchanged("This customer has no webhook.")
        self.log_change(request, obj, "Removed the webhook.")
        return "The webhook is removed."
