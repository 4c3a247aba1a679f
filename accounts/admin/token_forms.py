"""The forms of tokens and of the actions on them but those of accounts.admin.credit_forms.

They check types and presence, and call the rules of accounts.tokens and accounts.credits.
"""

from functools import partial
from typing import Any, ClassVar, cast

from django import forms
from django.conf import settings
from django.db.models import QuerySet
from django.utils.functional import lazy
from unfold import widgets

from accounts import credits, customers, tokens
from accounts.admin.credit_forms import OnceForm, TargetField, integer_field, paid_text, price_field, text_field
from accounts.admin.suggest_fields import CustomerField
from accounts.credits import MAX_AMOUNT
from accounts.models import MAX_RATE_LIMIT, ApiToken, CreditEntry, Customer
from core.forms import ConfirmationField, TextField, WholeNumberField

#: How long the previous token keeps working after a rotation: minutes and their name.
GRACES = {0: "none", 60: "1 hour", 24 * 60: "1 day", 7 * 24 * 60: "7 days"}

_checkbox = partial(forms.BooleanField, widget=widgets.UnfoldBooleanWidget)


def _rate_limits() -> str:
    """The help text of a rate limit, by the settings."""
    (limit, window_s), test = settings.RATE_LIMIT, settings.TEST_RATE_LIMIT
    window = "" if test[1] == window_s else f" in {test[1]} seconds"
    of_tests = "" if test == settings.RATE_LIMIT else f", or {test[0]:,}{window} for test tokens"
    return f"Requests in {window_s} seconds, 1 to {MAX_RATE_LIMIT:,}. Leave empty for the default: {limit:,}{of_tests}."


class ApiTokenForm(forms.ModelForm):
    """`cleaned_data["new_customer"]`: the name of a customer to create, which then owns the token; empty for none."""

    customer = CustomerField(help_text="Name or #id of the customer who owns the token.")
    can_create_customer = False

    class Meta:
        model = ApiToken
        fields = ("name", "customer", "note", "rate_limit", "contact", "low_balance_at")
        # The page that issues a token has no ModelAdmin's.
        field_classes = {
            "name": TextField,
            "note": TextField,
            "rate_limit": WholeNumberField,
            "low_balance_at": WholeNumberField,
        }
        widgets = {
            "name": widgets.UnfoldAdminTextInputWidget,
            "note": widgets.UnfoldAdminTextareaWidget(attrs={"rows": 3}),
            "rate_limit": widgets.UnfoldAdminIntegerFieldWidget,
            "contact": widgets.UnfoldAdminEmailInputWidget,
            "low_balance_at": widgets.UnfoldAdminIntegerFieldWidget,
        }
        help_texts = {
            "name": "Name of the app or site. The customer sees it.",
            "note": "Shown to operators only.",
            "rate_limit": lazy(_rate_limits, str)(),
            "contact": "E-mail address that gets a notice when the balance is low, instead of the customer's contacts.",
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.can_create_customer and "customer" in self.fields:
            cast(CustomerField, self.fields["customer"]).allow_creation()

    def clean_customer(self) -> Customer | None:
        """Runs in the transaction of a change. Looks a new name up again under a lock, because another user may have
        created that customer meanwhile; tokens.issue locks the customer of a new token."""
        customer: Customer | None = self.cleaned_data["customer"]
        self.cleaned_data["new_customer"] = ""
        try:
            if customer is not None and customer.pk is None and self.instance.pk:
                customer = customers.find_or_reserve(name=customer.name) or customer
            if customer is not None and customer.pk is None:
                self.cleaned_data["new_customer"] = customer.name
                return None
            if customer is not None and self.instance.pk and customer.pk != self.instance.customer_id:
                customers.lock_for_token(customer)
        except ValueError as error:
            raise forms.ValidationError(str(error)) from error
        return customer

    def clean_name(self) -> str:
        try:
            return customers.clean_name(self.cleaned_data["name"], of="token")
        except ValueError as error:
            raise forms.ValidationError(str(error)) from error


class IssueForm(OnceForm, ApiTokenForm):
    again_label = "Issue another token"
    is_test = _checkbox(
        label="Test token",
        required=False,
        help_text=(
            "Never charged; returns fixed test results that depend on the number. Needs no credits, contact or "
            "threshold."
        ),
    )
    initial_credits = integer_field(initial=0, min_value=0, max_value=MAX_AMOUNT)
    price = price_field(help_text=lazy(paid_text, str)())
    days = integer_field(
        label="Valid for (days)",
        initial=lambda: settings.TOKEN_DAYS,
        min_value=1,
        max_value=tokens.MAX_DAYS,
        help_text="Rotating the token restarts the period.",
    )
    reason = text_field(help_text="For example: new customer. Shown in the ledger.")
    field_order = ("name", "customer", "is_test", "initial_credits", "price", "days", "reason")
    fields_of_arguments: ClassVar = {"amount": "initial_credits"}

    def clean(self) -> dict[str, Any]:
        data = super().clean() or self.cleaned_data
        self.check(tokens.check_test_token, "is_test", "contact", "price", "low_balance_at")
        self.check(credits.check_not_test, "amount", "is_test")
        self.check(credits.check_price, "amount", "price")
        if "once" in data:
            issued = CreditEntry.objects.filter(kind=CreditEntry.Kind.ISSUE, reference=data["once"].hex)
            self.check_allowance(issued, "amount")
        return data


class UnrotatedForm(forms.Form):
    """`expires_at` identifies the token that the page shows: it must not have been rotated since."""

    expires_at = forms.CharField(widget=forms.HiddenInput)


class MoveRestForm(forms.Form):
    """`targets`: the tokens that it offers to move the credits to; None, or without one, it does not ask."""

    to_token = TargetField(ApiToken.objects.none(), label="Move its credits to", required=False)

    def __init__(self, *args: Any, targets: QuerySet[ApiToken] | None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field: Any = self.fields["to_token"]
        # A token that was chosen and then revoked is refused.
        if targets is not None and (targets.exists() or self.data.get("to_token")):
            field.queryset = targets
        else:
            del self.fields["to_token"]


class RotateForm(UnrotatedForm, MoveRestForm):
    grace_minutes = forms.TypedChoiceField(
        label="Previous token keeps working for",
        choices=list({**GRACES, 0: "No time: choose this if it was stolen or leaked"}.items()),
        coerce=int,
        widget=widgets.UnfoldAdminRadioSelectWidget,
        help_text=(
            "For the customer to switch to the new one. A leaked token can have it too, if the customer needs it: "
            "until then whoever has the token can spend the credits."
        ),
    )
    reason = text_field(help_text="Shown in the history.")
    to_token = TargetField(
        ApiToken.objects.none(),
        label="Move its credits to",
        required=False,
        empty_label="Do not move them: the new token can spend the credits",
    )
    field_order = ("grace_minutes", "to_token", "reason")


class EndGraceForm(UnrotatedForm):
    reason = text_field(help_text="Shown in the history.")
    confirmed = ConfirmationField(label="I understand that the previous token stops working immediately.")


class RevokeForm(MoveRestForm):
    """Without `targets` it says what becomes of the credits that are `left`."""

    reason = text_field()
    to_token = TargetField(
        ApiToken.objects.none(),
        label="Move its credits to",
        required=False,
        empty_label="Leave them on this token",
        help_text="Credits that stay can only be moved later, not spent.",
    )
    confirmed = ConfirmationField(label="I understand that this token stops working permanently.")
    field_order = ("reason", "to_token", "confirmed")

    def __init__(self, *args: Any, left: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "to_token" not in self.fields:
            self.fields["confirmed"].label = f"{self.fields['confirmed'].label} {left}".strip()
