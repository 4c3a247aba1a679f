"""A form field for a token, which suggests those that have the text that is typed."""

import re
from types import MappingProxyType
from typing import Any

from django import forms

from accounts.admin.suggest_fields import SuggestWidget
from accounts.models import ApiToken

_TOKEN = re.compile(r"(?:.*\(#|#)?([0-9]{1,18})\)?")


class TokenWidget(SuggestWidget):
    suggested = "API tokens"
    placeholder = "Part of its name or of the customer's"
    source = MappingProxyType({"app_label": "file_lookups", "model_name": "filelookup", "field_name": "token"})


class TokenField(forms.CharField):
    """A token that can be used, by its #id or as it is suggested."""

    widget = TokenWidget

    def prepare_value(self, value: Any) -> Any:
        return str(value) if isinstance(value, ApiToken) else value

    def clean(self, value: Any) -> ApiToken:
        match = _TOKEN.fullmatch(super().clean(value))
        token = ApiToken.objects.filter(pk=match[1]).first() if match else None
        if token is None:
            raise forms.ValidationError("Choose a token from the list that opens as you type.")
        if token.state in ("revoked", "expired"):
            raise forms.ValidationError(f"This token is {token.state}. Choose another one.")
        return token
