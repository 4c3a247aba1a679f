"""Form fields of the console."""

from collections.abc import Callable
from typing import Any, ClassVar

from django import forms
from django.conf import settings
from django.forms.boundfield import BoundField
from django.forms.renderers import DjangoTemplates
from django.utils.text import format_lazy
from unfold.widgets import UnfoldAdminTextInputWidget, UnfoldBooleanWidget

from core import amounts, numbers
from core.field_errors import FieldError
from core.text import MAX_FIELD


class FocusedField(BoundField):
    """In a form with errors, the first field that has one gets the focus, instead of another."""

    def build_widget_attrs(self, attrs: Any, widget: Any = None) -> dict[str, Any]:
        built: dict[str, Any] = super().build_widget_attrs(attrs, widget)
        if self.form.is_bound and not self.is_hidden and not (widget and widget.is_hidden):
            wrong = next((field.name for field in self.form.visible_fields() if field.errors), None)
            built |= {"autofocus": self.name == wrong} if wrong else {}
        return built


class FormRenderer(DjangoTemplates):
    """FORM_RENDERER: Django's, without `maxlength`, by which browsers cut what is pasted without a word. The error says
    how long a text is, and the form keeps it."""

    bound_field_class = FocusedField

    def render(self, template_name: str, context: dict[str, Any], request: Any = None) -> str:
        if "widget" in context:
            context["widget"]["attrs"].pop("maxlength", None)
        return super().render(template_name, context, request)


class TextField(forms.CharField):
    """Django's, with its greatest length in the help text; without one of its own, that of any field."""

    def __init__(self, *, max_length: int | None = None, help_text: Any = "", **options: Any) -> None:
        max_length = max_length or MAX_FIELD
        limit = f"At most {max_length:,} characters."
        help_text = format_lazy("{} {}", help_text, limit) if help_text else limit
        super().__init__(max_length=max_length, help_text=help_text, **options)


class _NumberField(forms.Field):
    """A field of text: browsers drop the comma from one of the type `number`, and 12,50 becomes 1250."""

    #: Raises ValueError.
    parse: Callable[[str], Any]
    inputmode: str

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        if not self.widget.is_hidden:
            self.widget.input_type = "text"

    def widget_attrs(self, widget: forms.Widget) -> dict[str, Any]:
        return {"inputmode": self.inputmode, **widget.attrs}

    def to_python(self, value: Any) -> Any:
        """What was typed into the field; None if nothing was. Raises ValidationError."""
        if value in self.empty_values:
            return None
        try:
            return self.parse(str(value))
        except amounts.AmbiguousNumber as error:
            message = f"{value} may mean {error.choices[0]} or {error.choices[1]}. Enter one of these."
        except ValueError:
            message = str(self.error_messages["invalid"])
        raise forms.ValidationError(message, "invalid")


class WholeNumberField(_NumberField, forms.IntegerField):
    """Django's, in ASCII digits alone, with or without separators of thousands."""

    parse = staticmethod(amounts.typed_whole_number)
    inputmode = "numeric"
    default_error_messages = {"invalid": "Enter a whole number, such as 1000."}


class DecimalNumberField(_NumberField, forms.DecimalField):
    """Django's, in ASCII digits alone and without an exponent; with a decimal point or comma."""

    parse = staticmethod(amounts.typed_decimal_number)
    inputmode = "decimal"
    default_error_messages = {"invalid": "Enter a number, such as 1250 or 12.50."}


class CheckedForm(forms.Form):
    """Shows what a service would refuse at the fields, with the other errors. `fields_of_arguments`: the field of each
    argument of services that has another name."""

    fields_of_arguments: ClassVar[dict[str, str]] = {}

    def check(self, rule: Callable[..., object], *arguments: str, **others: Any) -> None:
        """Call a service's `rule`, with the values of fields and `others`, unless one of these fields is invalid."""
        fields = {name: self.fields_of_arguments.get(name, name) for name in arguments}
        if not {*fields.values()} <= self.cleaned_data.keys():
            return
        try:
            rule(**{name: self.cleaned_data[field] for name, field in fields.items()}, **others)
        except FieldError as error:
            self.add_error(fields.get(error.field), str(error))


class ConfirmationField(forms.BooleanField):
    """A box that must be ticked."""

    widget = UnfoldBooleanWidget
    default_error_messages = {"required": "Tick the box to confirm."}


def country_code_help(text: str) -> str:
    """What to enter in place of a number that lacks its country code; empty for other text."""
    try:
        digits = numbers.without_separators(text)
    except numbers.InvalidNumber:
        return ""
    is_long = numbers.MIN_DIGITS <= len(digits) <= numbers.MAX_DIGITS
    if not digits.isdecimal() or not (digits.startswith("0") or is_long):
        return ""
    found = numbers.with_country_code(digits, settings.COUNTRY_CODE, settings.INTERNATIONAL_PREFIX)
    missing = f'"{text.strip()}" has no country code.'
    if found is None:
        return f"{missing} Enter it with its country code, for example +49 30 23125042."
    return f"{missing} Enter {numbers.formatted(found)}, or the number with another country code."


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
            message = country_code_help(text) or self.error_messages["invalid"]
            raise forms.ValidationError(message, "invalid", {"problem": str(error)}) from error


class SearchedNumberField(PhoneNumberField):
    """A number to look for: 5550107 without its country code would be found nowhere."""

    parse = staticmethod(numbers.parse_searched)
