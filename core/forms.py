"""Form fields of the console."""

from collections.abc import Callable
from typing import Any

from django import forms
from unfold.widgets import UnfoldAdminTextInputWidget, UnfoldBooleanWidget

from core import amounts, numbers


class WholeNumberField(forms.IntegerField):
    """Django's, in ASCII digits alone."""

    def to_python(self, value: Any) -> Any:
        return _typed(self, value, amounts.whole_number)


class DecimalNumberField(forms.DecimalField):
    """Django's, in ASCII digits alone and without an exponent."""

    def to_python(self, value: Any) -> Any:
        return _typed(self, value, amounts.decimal_number)


def _typed(field: forms.Field, value: Any, parse: Callable[[str], Any]) -> Any:
    """What was typed into the field; None if nothing was. Raises ValidationError."""
    if value in field.empty_values:
        return None
    try:
        return parse(str(value))
    except ValueError:
        raise forms.ValidationError(field.error_messages["invalid"], code="invalid") from None


class ConfirmationField(forms.BooleanField):
    """A box that must be ticked."""

    widget = UnfoldBooleanWidget
    default_error_messages = {"required": "Tick the box to confirm."}


class PhoneNumberField(forms.CharField):
    """A number as people type it, with its country code; cleaned to its digits, or to "" if it may be empty."""

    default_error_messages = {
        "invalid": "Invalid phone number (%(problem)s). Enter it with its country code, for example +49 30 23125042."
    }

    #: Raises InvalidNumber.
    parse: Callable[[str], str] = staticmethod(numbers.parse_typed)

    def __init__(self, *, attrs: dict[str, str] | None = None, **options: Any) -> None:
        widget = UnfoldAdminTextInputWidget(attrs={"inputmode": "tel", "autocomplete": "off", **(attrs or {})})
        super().__init__(widget=widget, **options)

    def clean(self, value: Any) -> str:
        text: str = super().clean(value)
        try:
            return self.parse(text) if text else ""
        except numbers.InvalidNumber as error:
            message = self.error_messages["invalid"]
            raise forms.ValidationError(message, "invalid", {"problem": str(error)}) from error


class SearchedNumberField(PhoneNumberField):
    """A number to look for: 5550107 without its country code would be found nowhere."""

    parse = staticmethod(numbers.parse_searched)
