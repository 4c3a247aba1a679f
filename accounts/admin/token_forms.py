"""The forms of tokens and of the actions on them.

They check types and presence, and call the rules of accounts.tokens and accounts.credits.
"""

from functools import partial
from typing import Any, ClassVar, cast
from uuid import uuid4

from django import forms
from django.conf import settings
from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.utils.functional import lazy
from unfold import widgets

from accounts import credits, customers, tokens
from accounts.admin.suggest_fields import CustomerField
from accounts.credits import MAX_AMOUNT, MAX_PRICE, credits_text
from accounts.models import MAX_RATE_LIMIT, ApiToken, CreditEntry, Customer
from core.forms import CheckedForm, ConfirmationField, DecimalNumberField, TextField, WholeNumberField

#: How long the previous token keeps working after a rotation: minutes and their name.
GRACES = {0: "none", 60: "1 hour", 24 * 60: "1 day", 7 * 24 * 60: "7 days"}
#: How many tokens one page tops up.
MAX_AT_ONCE = 900

_integer = partial(WholeNumberField, widget=widgets.UnfoldAdminIntegerFieldWidget)
_text = partial(TextField, max_length=200, widget=widgets.UnfoldAdminTextInputWidget)
_checkbox = partial(forms.BooleanField, widget=widgets.UnfoldBooleanWidget)
_price = partial(
    DecimalNumberField,
    required=False,
    max_digits=14,
    decimal_places=4,
    min_value=0,
    max_value=MAX_PRICE,
    widget=widgets.UnfoldAdminTextInputWidget,
)
#: Some keypads of phones have no minus.
_SIGNED = widgets.UnfoldAdminTextInputWidget(attrs={"inputmode": "text"})


def _paid(what: str = "these credits in total") -> str:
    """The help text of a price, by the settings."""
    default = (
        "Leave empty if it is unknown"
        if settings.CREDIT_PRICE is None
        else f"Leave empty for {settings.CREDIT_PRICE} per credit"
    )
    return f"Paid for {what}, in {settings.CURRENCY}. {default}; 0 if they are free."


def _rate_limits() -> str:
    """The help text of a rate limit, by the settings."""
    (limit, window_s), test = settings.RATE_LIMIT, settings.TEST_RATE_LIMIT
    window = "" if test[1] == window_s else f" in {test[1]} seconds"
    of_tests = "" if test == settings.RATE_LIMIT else f", or {test[0]:,}{window} for test tokens"
    return f"Requests in {window_s} seconds, 1 to {MAX_RATE_LIMIT:,}. Leave empty for the default: {limit:,}{of_tests}."


class EitherField(TextField):
    """One of several of which one is required, by the form's own check."""

    widget = widgets.UnfoldAdminTextInputWidget
    mark = "a reason or a reference is required"


class AgainForm(CheckedForm):
    """Asks, by the box `may_repeat`, before it writes an entry that equals one of the last minutes. `limited_user`: the
    operator, if their credits are limited."""

    again_label: ClassVar[str]
    may_repeat = forms.BooleanField(required=False, widget=forms.HiddenInput)

    def __init__(self, *args: Any, limited_user: User | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.limited_user = limited_user
        self.fields["may_repeat"].label = self.again_label
        self.order_fields(["may_repeat", *(self.field_order or ())])
        if self.data.get("may_repeat"):
            self._show_box()

    def add_error(self, field: str | None, error: Any) -> None:
        super().add_error(field, error)
        if field == "may_repeat":
            self._show_box()

    def check_allowance(self, repeated: QuerySet[CreditEntry], *arguments: str, **others: Any) -> None:
        if self.limited_user:
            self.check(credits.check_allowance, *arguments, user=self.limited_user, repeated=repeated, **others)

    @property
    def error_title(self) -> str:
        if [*self.errors] != ["may_repeat"]:
            return ""
        return "Nothing was changed: this may have been done already. To do it again, tick the box."

    def _show_box(self) -> None:
        self.fields["may_repeat"].widget = widgets.UnfoldBooleanWidget()


class OnceForm(AgainForm):
    """Takes effect once however often it is submitted: `once` is new on each page, and the ledger's reference."""

    once = forms.UUIDField(widget=forms.HiddenInput, initial=uuid4)


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
    initial_credits = _integer(initial=0, min_value=0, max_value=MAX_AMOUNT)
    price = _price(help_text=lazy(_paid, str)())
    days = _integer(
        label="Valid for (days)",
        initial=lambda: settings.TOKEN_DAYS,
        min_value=1,
        max_value=tokens.MAX_DAYS,
        help_text="Rotating the token restarts the period.",
    )
    reason = _text(help_text="For example, an order number. Shown in the ledger.")
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


def reason_of(reference: str) -> str:
    """The reason of an entry for which only a reference was entered."""
    return f"Reference {reference}"


class TopUpForm(OnceForm):
    """`token`: whose balance changes, unless a field says it."""

    kind = CreditEntry.Kind.TOP_UP
    again_label = "Add them again"
    fields_of_arguments: ClassVar = {"reference": "own_reference"}

    amount = _integer(help_text="Credits to add.", min_value=1, max_value=MAX_AMOUNT)
    price = _price(help_text=lazy(_paid, str)())
    reason = EitherField(max_length=200, required=False, help_text="In your own words. Only operators see it.")
    own_reference = EitherField(
        label="Reference",
        max_length=100,
        required=False,
        help_text=(
            "Invoice or order number, to find the entry by. Customers see it too. A reference can be used only once "
            "per token."
        ),
    )

    def __init__(self, *args: Any, token: ApiToken | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.changed_token = token

    def clean(self) -> dict[str, Any]:
        """Adds `reference`: the operator's own, or this page's `once`."""
        data = super().clean() or self.cleaned_data
        self.check(credits.check_change, "amount", kind=self.kind)
        self.check(credits.check_price, "amount", "price")
        if "once" in data:
            data["reference"] = data.get("own_reference") or data["once"].hex
            token = data.get("token", self.changed_token)
            self._check_balances(data.get("tokens", [token] if token else []), data["reference"])
        if not data.get("reason"):
            data["reason"] = reason_of(data["own_reference"]) if data.get("own_reference") else ""
            if not data["reason"] and "reason" not in self.errors:
                self.add_error("reason", "Enter a reason or a reference.")
        return data

    def _check_balances(self, changed: list[ApiToken], reference: str) -> None:
        """Unless this was submitted before."""
        recorded = CreditEntry.objects.filter(token__in=changed, reference=reference)
        self.check_allowance(recorded, "amount")
        if len(changed) == 1 and not recorded.exists():
            self.check(credits.check_balance, "amount", balance=changed[0].credits)


class BulkTopUpForm(TopUpForm):
    """`tokens`: at most MAX_AT_ONCE token ids, separated by commas."""

    price = _price(help_text=lazy(_paid, str)("the credits of each token"))
    tokens = forms.RegexField(
        r"\A[0-9]{1,18}(,[0-9]{1,18})*\Z",
        widget=forms.HiddenInput,
        error_messages={"required": "Select the tokens in the list."},
    )

    def clean_tokens(self) -> list[ApiToken]:
        ids = {int(token_id) for token_id in self.cleaned_data["tokens"].split(",")}
        if len(ids) > MAX_AT_ONCE:
            raise forms.ValidationError(f"At most {MAX_AT_ONCE} tokens at once.")
        found = list(ApiToken.objects.filter(pk__in=ids).order_by("pk"))
        if len(found) < len(ids):
            raise forms.ValidationError("Select the tokens again in the list: some of these do not exist.")
        return found


class AdjustForm(TopUpForm):
    kind = CreditEntry.Kind.ADJUSTMENT
    again_label = "Adjust the balance again"
    amount = _integer(
        help_text="A negative amount removes credits, e.g. -5. The balance cannot fall below 0.",
        widget=_SIGNED,
        min_value=-MAX_AMOUNT,
        max_value=MAX_AMOUNT,
    )
    price = _price(
        widget=_SIGNED,
        min_value=-MAX_PRICE,
        help_text=lazy(
            lambda: (
                f"In {settings.CURRENCY}. Enter a price only if the amount paid changes; use a negative number for a "
                "repayment."
            ),
            str,
        )(),
    )
    confirmed = ConfirmationField(label="I understand that the balance changes now and that the entry is permanent.")


class TargetField(forms.ModelChoiceField):
    """A token of one customer that can get credits."""

    widget = widgets.UnfoldAdminSelectWidget
    default_error_messages = {"invalid_choice": "Choose a token of this customer that is not revoked."}

    def label_from_instance(self, obj: Any) -> str:
        state = "" if obj.state in ("active", "in grace") else f", {obj.state}"
        return f"{obj}: {credits_text(obj.credits)}{state}"


def set_targets(field: Any, targets: QuerySet[ApiToken]) -> None:
    """Offer these tokens. The only one is selected."""
    field.queryset = targets
    if len(only := targets[:2]) == 1:
        field.initial = only[0]


class CustomerTopUpForm(TopUpForm):
    """`targets`: the tokens that it offers; the only one is selected."""

    token = TargetField(ApiToken.objects.none(), label="API token", empty_label="Choose a token")
    field_order = ("token",)

    def __init__(self, *args: Any, targets: QuerySet[ApiToken], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        set_targets(self.fields["token"], targets)


class MoveCreditsForm(OnceForm):
    """`source`: the token that has the credits. `targets`: the tokens that it offers."""

    again_label = "Move them again"
    to_token = TargetField(ApiToken.objects.none(), label="Move to", empty_label="Choose a token")
    amount = _integer(help_text="Credits to move.", min_value=1)
    reason = _text(help_text="Shown in the ledger of both tokens.")

    def __init__(self, *args: Any, source: ApiToken, targets: QuerySet[ApiToken], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.source = source
        set_targets(self.fields["to_token"], targets)

    def clean(self) -> dict[str, Any]:
        data = super().clean() or self.cleaned_data
        if "once" in data and not self.source.entries.filter(reference=data["once"].hex).exists():
            self.check(credits.check_left, "amount", source=self.source)
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
        choices=[(0, "No time: choose this if it was stolen or leaked"), *list(GRACES.items())[1:]],
        coerce=int,
        widget=widgets.UnfoldAdminRadioSelectWidget,
        help_text="For the customer to switch to the new one.",
    )
    reason = _text(help_text="Shown in the history.")
    to_token = TargetField(
        ApiToken.objects.none(),
        label="Move its credits to",
        required=False,
        empty_label="Keep them: the new token can spend them",
    )
    field_order = ("grace_minutes", "to_token", "reason")


class EndGraceForm(UnrotatedForm):
    reason = _text(help_text="Shown in the history.")
    confirmed = ConfirmationField(label="I understand that the previous token stops working immediately.")


class RevokeForm(MoveRestForm):
    """Without `targets` it says what becomes of the credits that are `left`."""

    reason = _text()
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
