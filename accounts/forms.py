"""What the admin asks before it calls a verb. Only types and presence are judged here: the rules stand in the verbs."""

from typing import Any
from uuid import uuid4

from django import forms
from django.conf import settings
from django.contrib.admin.widgets import AdminIntegerFieldWidget, AdminTextareaWidget, AdminTextInputWidget

from accounts import tokens
from accounts.models import ApiToken

MAX_GRACE_MINUTES = int(tokens.MAX_GRACE.total_seconds()) // 60


class OnceForm(forms.Form):
    """Counts once however often it is sent: `once` is new with each page, and the ledger keeps it as the reference."""

    once = forms.UUIDField(widget=forms.HiddenInput, initial=uuid4)


class IssueForm(OnceForm):
    name = forms.CharField(max_length=100, widget=AdminTextInputWidget, help_text="Whose token it is.")
    initial_credits = forms.IntegerField(widget=AdminIntegerFieldWidget, initial=0)
    days = forms.IntegerField(
        widget=AdminIntegerFieldWidget,
        initial=lambda: settings.TOKEN_DAYS,
        help_text="How long it works. Rotating it starts this time anew.",
    )
    note = forms.CharField(required=False, widget=AdminTextareaWidget, help_text="For operators.")


class BookingForm(OnceForm):
    """A top-up, as it stands."""

    amount = forms.IntegerField(widget=AdminIntegerFieldWidget)
    reason = forms.CharField(max_length=200, widget=AdminTextInputWidget, help_text="Stands in the ledger.")
    own_reference = forms.CharField(
        label="Reference",
        max_length=100,
        required=False,
        widget=AdminTextInputWidget,
        help_text="Optional: your own, such as an invoice's number. A token takes each reference once.",
    )

    def clean(self) -> dict[str, Any]:
        """`reference`: the operator's own, or else this page's."""
        data = super().clean() or self.cleaned_data
        if "once" in data:
            data["reference"] = data.get("own_reference") or data["once"].hex
        return data


class AdjustForm(BookingForm):
    amount = forms.IntegerField(
        widget=AdminIntegerFieldWidget,
        help_text="With its sign: -5 takes five credits away. The balance never falls below 0.",
    )


class RotateForm(forms.Form):
    """`expires_at` says which token the page was about, so that a second click does not end the first one's grace."""

    grace_minutes = forms.IntegerField(
        widget=AdminIntegerFieldWidget,
        min_value=0,
        max_value=MAX_GRACE_MINUTES,
        initial=0,
        help_text="How long the present token works on. 0: it stops at once.",
    )
    expires_at = forms.CharField(widget=forms.HiddenInput)


class RevokeForm(forms.Form):
    reason = forms.CharField(max_length=200, widget=AdminTextInputWidget)


class ApiTokenForm(forms.ModelForm):
    class Meta:
        model = ApiToken
        fields = ("name", "note")

    def clean_name(self) -> str:
        """As when it was issued."""
        try:
            return tokens.clean_name(self.cleaned_data["name"])
        except ValueError as error:
            raise forms.ValidationError(str(error)) from error
