"""Form fields that suggest what has the text that is typed; one for a customer."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from unfold import widgets

from accounts import customers
from accounts.admin.search_text import id_in
from accounts.models import Customer

#: With the name and a quotation mark after it, what suggest.js offers for a name that no customer has.
_CREATE = 'Create "'
#: The code of the error for a text that does not mean one customer.
UNKNOWN = "unknown"


def _or_create(message: str, name: str) -> SafeString:
    """With a box that creates the customer (CustomerWidget.value_from_datadict)."""
    value = f'{_CREATE}{name}"'
    box = widgets.UnfoldBooleanWidget(attrs={"value": value, "id": "create_customer"}).render("customer", False)
    text = f"{message} To create it, tick the box:"
    return format_html('{} <label class="create-customer">{} {}</label>', text, box, value)


def _name_to_create(value: Any) -> str | None:
    """The name in `Create "name"`; None for another value."""
    text = str(value or "").strip()
    return text[len(_CREATE) : -1] if text.startswith(_CREATE) and text.endswith('"') else None


class SuggestWidget(widgets.UnfoldAdminTextInputWidget):
    """A text field with suggestions: Django's view finds them, and suggest.js lists them. The fields of Django's own
    widget have no names for screen readers, and Enter takes an unknown name."""

    template_name = "admin/accounts/suggest_field.html"
    placeholder = "Part of the name"
    #: What is suggested, for people, and a foreign key to it, for Django's view.
    suggested: str
    source: Mapping[str, str]

    class Media:
        js = ("callerid/suggest.js",)

    def get_context(self, name: str, value: Any, attrs: Any) -> dict[str, Any]:
        own = {
            "role": "combobox",
            "aria-controls": f"{name}_list",
            "aria-expanded": "false",
            "aria-autocomplete": "list",
            "autocomplete": "off",
            "data-suggest": f"{reverse('admin:autocomplete')}?{urlencode(self.source)}",
            "placeholder": self.placeholder,
        }
        return {**super().get_context(name, value, {**(attrs or {}), **own}), "suggested": self.suggested}


class CustomerWidget(SuggestWidget):
    suggested = "Customers"
    source = MappingProxyType({"app_label": "accounts", "model_name": "apitoken", "field_name": "customer"})

    @property
    def can_create(self) -> bool:
        return "data-create" in self.attrs

    @property
    def placeholder(self) -> str:  # type: ignore[override]
        return "Part of the name, or a new name" if self.can_create else super().placeholder

    def get_context(self, name: str, value: Any, attrs: Any) -> dict[str, Any]:
        new_name = _name_to_create(value) if self.can_create else None
        creation = {"can_create": self.can_create, "new_name": new_name, "value_to_create": value}
        return {**super().get_context(name, new_name or value, attrs), **creation}

    def value_from_datadict(self, data: Any, files: Any, name: str) -> Any:
        """`Create "name"` only beside the name itself: without JavaScript, the text may have been changed since."""
        chosen = super().value_from_datadict(data, files, name)
        text, *others = (hasattr(data, "getlist") and data.getlist(name)) or [chosen]
        is_changed = others and (new_name := _name_to_create(chosen)) is not None and new_name != text.strip()
        return text if is_changed else chosen


class CustomerField(forms.ModelChoiceField):
    """A customer by name or id (customers.get_by_name_or_id): there may be too many for a list. After `allow_creation`
    also a new one, which the form's user saves."""

    widget = CustomerWidget
    can_create = False
    # For the model's own check of the foreign key.
    default_error_messages = {"invalid": "This customer was deleted meanwhile. Choose another customer."}

    def __init__(self, **options: Any) -> None:
        super().__init__(Customer.objects.all(), required=False, **options)

    def allow_creation(self) -> None:
        self.can_create, self.widget.attrs["data-create"] = True, ""

    def prepare_value(self, value: Any) -> Any:
        """An id is shown with the name."""
        if (customer_id := id_in(str(value))) is not None:
            value = Customer.objects.filter(pk=customer_id).first() or value
        return value if value is None else str(value)

    def has_changed(self, initial: Any, data: Any) -> bool:
        """By id: the customer may have got another name since the page was opened."""
        try:
            return self.to_python(self.prepare_value(initial)) != self.to_python(data)
        except forms.ValidationError:
            return True

    def to_python(self, value: Any) -> Customer | None:
        text = "" if value in self.empty_values else str(value).strip()
        if not text:
            return None
        try:
            if self.can_create and (name := _name_to_create(text)) is not None:
                return Customer(name=customers.clean_name(name))
            return customers.get_by_name_or_id(text)
        except customers.NoSuchName as error:
            message = "There is no customer with this name. Choose one from the list that opens as you type."
            raise forms.ValidationError(_or_create(message, text) if self.can_create else message, UNKNOWN) from error
        except ValueError as error:
            raise forms.ValidationError(str(error), UNKNOWN) from error
