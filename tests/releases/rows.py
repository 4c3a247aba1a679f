"""At least one row in every table of a new database, for the dump of a release."""

from datetime import timedelta
from typing import Any

from django.apps import apps
from django.db import models
from django.utils import timezone

from accounts import credits, customers, tokens

NUMBER = 12125550100  # reserved for fiction


def create_rows() -> str:
    """Fill each empty table; returns the JWT of a token with 10 credits, valid as long as a token can be."""
    customer = customers.create(name="Example Bakery")
    issued = tokens.issue(name="Shop phone", customer=customer, initial_credits=7, actor="maria", days=tokens.MAX_DAYS)
    credits.top_up(token=issued.token, amount=3, actor="maria", reason="Invoice", reference="2026-100")
    empty = [each for each in apps.get_models(include_auto_created=True) if not _has_rows(each)]
    while empty:
        ready = [model for model in empty if all(_has_rows(each) for each in _referred_to(model))]
        for model in ready:
            fields = [field for field in model._meta.local_concrete_fields if not isinstance(field, models.AutoField)]
            model._default_manager.create(**{field.name: _value(field) for field in fields})
        empty = [model for model in empty if model not in ready]
        assert ready or not empty, f"No row can be the first one of {empty}."
    return issued.api_key


def _has_rows(model: type[models.Model]) -> bool:
    return model._meta.proxy or model._default_manager.exists()


def _referred_to(model: type[models.Model]) -> list[Any]:
    fields = [field for field in model._meta.local_concrete_fields if field.is_relation]
    return [field.related_model for field in fields if field.related_model is not model]


def _value(field: Any) -> Any:
    """A value of the field's type that its constraints allow."""
    if field.is_relation:
        return field.related_model._default_manager.first()
    if field.choices:
        return field.flatchoices[0][0]
    if isinstance(field, models.DateTimeField):
        return timezone.now() + timedelta(hours=1)
    if isinstance(field, models.DateField):
        return timezone.now().date()
    if isinstance(field, models.BooleanField):
        return True
    if isinstance(field, models.BinaryField):
        return bytes(32)
    if isinstance(field, models.JSONField):
        return {}
    if field.name == "number":
        return NUMBER
    if isinstance(field, models.IntegerField | models.DecimalField):
        return 1
    return ("someone@example.org" if isinstance(field, models.EmailField) else "example")[: field.max_length]
