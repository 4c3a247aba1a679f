"""The form field for a customer."""

from typing import Any
from urllib.parse import urlencode

from django import forms
from django.core.validators import ProhibitNullCharactersValidator
from django.urls import reverse
from unfold import widgets

from accounts import customers
from accounts.admin.base import id_in
from accounts.models import Customer
from core.admin import page_url


class CustomerWidget(widgets.UnfoldAdminTextInputWidget):
    """A text field that suggests the customers whose name has the text in it: Django's view finds them, and suggest.js
    lists them. Screen readers know the browser's own list, unlike that of Django's widget."""

    template_name = "admin/accounts/customer_field.html"
    #: Whether it has a link to create a customer in a window of its own, whose id Django's script then enters here.
    can_create = False

    class Media:
        js = (
            "callerid/suggest.js",
            *("admin/js/vendor/jquery/jquery.min.js", "admin/js/jquery.init.js"),
            "admin/js/admin/RelatedObjectLookups.js",
        )

    def get_context(self, name: str, value: Any, attrs: Any) -> dict[str, Any]:
        source = urlencode({"app_label": "accounts", "model_name": "apitoken", "field_name": "customer"})
        url = f"{reverse('admin:autocomplete')}?{source}"
        own = {"list": f"{name}_list", "autocomplete": "off", "data-suggest": url, "placeholder": "Part of the name"}
        context = super().get_context(name, value, {**(attrs or {}), **own})
        return {**context, "create_url": page_url(Customer, "add") if self.can_create else ""}


class CustomerField(forms.ModelChoiceField):
    """A customer by name or id (customers.get_by_name_or_id): there may be too many for a list."""

    widget = CustomerWidget
    # For the model's own check of the foreign key.
    default_error_messages = {"invalid": "This customer was deleted meanwhile. Choose another customer."}

    def __init__(self, **options: Any) -> None:
        super().__init__(Customer.objects.all(), required=False, **options)

    def prepare_value(self, value: Any) -> Any:
        """An id is shown with the name."""
        if (customer_id := id_in(str(value))) is not None:
            value = Customer.objects.filter(pk=customer_id).first() or value
        return value if value is None else str(value)

    def to_python(self, value: Any) -> Customer | None:
        if value in self.empty_values or not str(value).strip():
            return None
        ProhibitNullCharactersValidator()(str(value))  # as in forms.CharField: PostgreSQL's texts have none
        try:
            return customers.get_by_name_or_id(str(value))
        except ValueError as error:
            raise forms.ValidationError(str(error)) from error
