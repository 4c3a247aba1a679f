"""The action on a customer's page that tops up a token."""

from typing import Any

from django.http import HttpRequest
from unfold.enums import ActionVariant

from accounts import credits
from accounts.admin import token_list
from accounts.admin.allowance import allowance, limited_user
from accounts.admin.base_classes import ShownAdmin, TokenRefusingAdmin
from accounts.admin.credit_forms import CustomerTopUpForm
from accounts.admin.top_ups import TOP_UP, TOP_UP_EXPLANATION, record
from accounts.models import CreditEntry, Customer
from core.admin import form_action


class CustomerActionsAdmin(ShownAdmin, TokenRefusingAdmin):
    actions_detail = ("top_up", "edit")

    def offers(self, request: HttpRequest, url_path: str, obj: Customer) -> bool:
        if url_path == "top-up":
            return token_list.usable(obj).exists()
        return True

    def action_context(self, request: HttpRequest, url_path: str, obj: Customer) -> dict[str, Any]:
        if url_path == "top-up":
            options = {"targets": token_list.usable(obj), "limited_user": limited_user(request)}
            return {"form_options": options, "explanation": allowance(request)}
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
