"""What the admin asks before it calls a verb. Only types and presence are judged here: the rules stand in the verbs."""

from typing import Any
from uuid import uuid4

from django import forms
from django.conf import settings
from unfold.widgets import (
    UnfoldAdminEmailInputWidget,
    UnfoldAdminIntegerFieldWidget,
    UnfoldAdminTextareaWidget,
    UnfoldAdminTextInputWidget,
    UnfoldBooleanWidget,
)

from accounts import credits, tokens
from accounts.models import ApiToken

MAX_GRACE_MINUTES = int(tokens.MAX_GRACE.total_seconds()) // 60
#: A day, in which the customer can change over.
DEFAULT_GRACE_MINUTES = 24 * 60
#: So many tokens are topped up by one page.
MAX_AT_ONCE = 900


class OnceForm(forms.Form):
    """Counts once however often it is sent: `once` is new with each page, and the ledger keeps it as the reference."""

    once = forms.UUIDField(widget=forms.HiddenInput, initial=uuid4)


class IssueForm(OnceForm):
    name = forms.CharField(max_length=100, widget=UnfoldAdminTextInputWidget, help_text="Whose token it is.")
    initial_credits = forms.IntegerField(widget=UnfoldAdminIntegerFieldWidget, initial=0)
    days = forms.IntegerField(
        widget=UnfoldAdminIntegerFieldWidget,
        initial=lambda: settings.TOKEN_DAYS,
        help_text="How long it works. Rotating it starts this time anew.",
    )
    reason = forms.CharField(
        max_length=200, widget=UnfoldAdminTextInputWidget, help_text="Stands in the ledger, such as the order's number."
    )
    note = forms.CharField(
        required=False, widget=UnfoldAdminTextareaWidget(attrs={"rows": 3}), help_text="For operators."
    )
    contact = forms.EmailField(
        required=False, widget=UnfoldAdminEmailInputWidget, help_text="Gets a notice when the balance is low."
    )
    low_balance_at = forms.IntegerField(
        required=False,
        min_value=0,
        max_value=credits.MAX_BALANCE,
        widget=UnfoldAdminIntegerFieldWidget,
        help_text="Credits: a notice is sent when the balance falls to this.",
    )


class BookingForm(OnceForm):
    """A top-up, as it stands."""

    amount = forms.IntegerField(widget=UnfoldAdminIntegerFieldWidget, help_text="Credits to add.")
    reason = forms.CharField(max_length=200, widget=UnfoldAdminTextInputWidget, help_text="Stands in the ledger.")
    own_reference = forms.CharField(
        label="Reference",
        max_length=100,
        required=False,
        widget=UnfoldAdminTextInputWidget,
        help_text="Optional: your own, such as an invoice's number. A token takes each reference once.",
    )

    def clean(self) -> dict[str, Any]:
        """`reference`: the operator's own, or else this page's."""
        data = super().clean() or self.cleaned_data
        if "once" in data:
            data["reference"] = data.get("own_reference") or data["once"].hex
        return data


class BulkForm(BookingForm):
    """One top-up for each of `tokens`: their ids with commas between, at most MAX_AT_ONCE."""

    tokens = forms.RegexField(r"\A[0-9]{1,18}(,[0-9]{1,18})*\Z", widget=forms.HiddenInput)

    def clean_tokens(self) -> list[int]:
        ids = sorted({int(token_id) for token_id in self.cleaned_data["tokens"].split(",")})
        if len(ids) > MAX_AT_ONCE:
            raise forms.ValidationError(f"At most {MAX_AT_ONCE} tokens at once.")
        return ids


class AdjustForm(BookingForm):
    amount = forms.IntegerField(
        widget=UnfoldAdminIntegerFieldWidget,
        help_text="With its sign: -5 takes five credits away. The balance never falls below 0.",
    )
    confirmed = forms.BooleanField(
        widget=UnfoldBooleanWidget,
        label="Change what this token can spend, at once. The ledger keeps it for good.",
    )


class RotateForm(forms.Form):
    """`expires_at` says which token the page was about, so that a second click does not end the first one's grace."""

    grace_minutes = forms.IntegerField(
        widget=UnfoldAdminIntegerFieldWidget,
        min_value=0,
        max_value=MAX_GRACE_MINUTES,
        initial=DEFAULT_GRACE_MINUTES,
        help_text="Keep the old token valid for (minutes); 0 = stop immediately.",
    )
    reason = forms.CharField(max_length=200, widget=UnfoldAdminTextInputWidget, help_text="Stands in the history.")
    expires_at = forms.CharField(widget=forms.HiddenInput)


class RevokeForm(forms.Form):
    reason = forms.CharField(max_length=200, widget=UnfoldAdminTextInputWidget)
    confirmed = forms.BooleanField(
        widget=UnfoldBooleanWidget,
        label="Refuse every further search with this token, for good. Its credits stay, and nobody can spend them.",
    )


class ApiTokenForm(forms.ModelForm):
    class Meta:
        model = ApiToken
        fields = ("name", "note", "contact", "low_balance_at")
        widgets = {"note": UnfoldAdminTextareaWidget(attrs={"rows": 3})}

    def clean_name(self) -> str:
        """As when it was issued."""
        try:
            return tokens.clean_name(self.cleaned_data["name"])
        except ValueError as error:
            raise forms.ValidationError(str(error)) from error
