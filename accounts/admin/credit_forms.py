"""The forms of changes of a balance.

They check types and presence, and call the rules of accounts.credits.
"""

from functools import partial
from typing import Any, ClassVar
from uuid import uuid4

from django import forms
from django.conf import settings
from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.utils.functional import lazy
from unfold import widgets

from accounts import credits
from accounts.credits import MAX_AMOUNT, MAX_PRICE, credits_text
from accounts.models import ApiToken, CreditEntry, reason_of
from core.bidi import isolated_name
from core.forms import CheckedForm, ConfirmationField, DecimalNumberField, TextField, WholeNumberField

#: How many tokens one page tops up.
MAX_AT_ONCE = 900

integer_field = partial(WholeNumberField, widget=widgets.UnfoldAdminIntegerFieldWidget)
text_field = partial(TextField, max_length=200, widget=widgets.UnfoldAdminTextInputWidget)
price_field = partial(
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


def paid_text(what: str = "these credits in total") -> str:
    """The help text of a price, by the settings."""
    default = (
        "Leave empty if it is unknown"
        if settings.CREDIT_PRICE is None
        else f"Leave empty for {settings.CREDIT_PRICE} per credit"
    )
    return f"Paid for {what}, in {settings.CURRENCY}. {default}; 0 if they are free."


class EitherField(TextField):
    """One of two of which one is required, by the form's own check. `unless`: the other one."""

    widget = widgets.UnfoldAdminTextInputWidget

    def __init__(self, *, unless: str, **kwargs: Any) -> None:
        super().__init__(required=False, **kwargs)
        self.mark = f"required without a {unless}"


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


class TopUpForm(OnceForm):
    """`token`: whose balance changes, unless a field says it."""

    kind = CreditEntry.Kind.TOP_UP
    again_label = "Add them again"
    fields_of_arguments: ClassVar = {"reference": "own_reference"}

    amount = integer_field(help_text="Credits to add.", min_value=1, max_value=MAX_AMOUNT)
    price = price_field(help_text=lazy(paid_text, str)())
    own_reference = EitherField(
        unless="reason",
        label="Reference",
        max_length=100,
        help_text=(
            "Invoice or order number, to find the entry by. Customers see it too. A reference can be used only once "
            "per token."
        ),
    )
    reason = EitherField(
        unless="reference",
        max_length=200,
        help_text="In your own words; only operators see it. Not the invoice number: that is the reference.",
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
            changed = data.get("tokens", [token] if token else [])
            recorded = CreditEntry.objects.filter(token__in=changed, reference=data["reference"])
            self.check_allowance(recorded, "amount")
            if len(changed) == 1 and not recorded.exists():  # else this was submitted before
                self.check(credits.check_balance, "amount", balance=changed[0].credits)
        if not data.get("reason"):
            data["reason"] = reason_of(data["own_reference"]) if data.get("own_reference") else ""
            if not data["reason"] and "reason" not in self.errors:
                self.add_error("reason", "Enter a reason or a reference.")
        return data


class BulkTopUpForm(TopUpForm):
    """`tokens`: at most MAX_AT_ONCE token ids, separated by commas."""

    price = price_field(help_text=lazy(paid_text, str)("the credits of each token"))
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
    amount = integer_field(
        help_text="A negative amount removes credits, e.g. -5. The balance cannot fall below 0.",
        widget=_SIGNED,
        min_value=-MAX_AMOUNT,
        max_value=MAX_AMOUNT,
    )
    price = price_field(
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
        return f"{isolated_name(str(obj))}: {credits_text(obj.credits)}{state}"


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
    amount = integer_field(help_text="Credits to move.", min_value=1)
    reason = text_field(help_text="Shown in the ledger of both tokens.")

    def __init__(self, *args: Any, source: ApiToken, targets: QuerySet[ApiToken], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.source = source
        set_targets(self.fields["to_token"], targets)

    def clean(self) -> dict[str, Any]:
        data = super().clean() or self.cleaned_data
        if "once" in data and not self.source.entries.filter(reference=data["once"].hex).exists():
            self.check(credits.check_left, "amount", source=self.source)
        return data
