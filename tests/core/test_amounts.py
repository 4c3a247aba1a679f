"""Amounts, counts and limits are ASCII digits, in forms and commands alike."""

import re
from decimal import Decimal
from io import StringIO
from typing import Any

import pytest
from django.contrib import admin
from django.core.management import CommandError, call_command
from django.db import models
from django.test import Client, RequestFactory

from accounts.models import ApiToken, CreditEntry, Customer
from core.amounts import decimal_number, whole_number
from core.forms import DecimalNumberField, WholeNumberField
from phonebook.models import ComplaintDay
from tests.accounts.admin.pages import balance, issue_token, page, submit
from tests.test_patterns import product

#: What Python's int() reads: with an underscore, and in Arabic-Indic, full-width and Devanagari digits.
REFUSED = ["1_000", "٣", "１２", "१२"]


@pytest.mark.parametrize(
    "text", [*REFUSED, "", " ", "-", "1 000", "1,000", "1.0", "1e3", "0x1F", "²", "9" * 41, "9" * 5_000, "1\0"]
)
def test_other_texts_are_no_whole_number(text: str) -> None:
    with pytest.raises(ValueError, match="not a whole number"):
        whole_number(text)


@pytest.mark.parametrize("text", [*REFUSED, "", ".", "-.", "1E5", "NaN", "Infinity", "1,5", "1.5.5", "1" * 41, "٣.٥"])
def test_other_texts_are_no_decimal_number(text: str) -> None:
    with pytest.raises(ValueError, match="not a decimal number"):
        decimal_number(text)


def test_ascii_digits_are_numbers() -> None:
    assert [whole_number(text) for text in ("0", "007", " 12 ", "-5", "+5", "9" * 30)] == [0, 7, 12, -5, 5, 10**30 - 1]
    known = [decimal_number(text) for text in ("12", "12.50", ".5", "-0.02", "12.")]
    assert known == [12, Decimal("12.5"), Decimal("0.5"), Decimal("-0.02"), 12]


@pytest.mark.parametrize("text", REFUSED)
@pytest.mark.django_db
def test_forms_refuse_other_digits_as_credits_and_prices(admin_client: Client, text: str) -> None:
    token = issue_token("pbx", 30)
    for fields in ({"amount": text, "price": ""}, {"amount": "5", "price": text}):
        response = submit(admin_client, page(token, "top-up"), reason="order", **fields)
        assert "Enter a" in response.text
    assert balance(token) == 30


@pytest.mark.parametrize("text", REFUSED)
@pytest.mark.django_db
def test_commands_refuse_other_digits(text: str) -> None:
    token = issue_token("pbx", 30)
    for command in (
        ["top_up", str(token.pk), text, "--note", "x"],
        ["top_up", str(token.pk), "5", "--note", "x", "--price", text],
        ["create_token", "new", "--credits", text],
        ["create_token", "new", "--credits", "5", "--rate-limit", text],
    ):
        with pytest.raises(CommandError, match="invalid"):
            call_command(*command, stdout=StringIO(), stderr=StringIO())
    assert balance(token) == 30
    assert ApiToken.objects.count() == 1


@pytest.mark.parametrize("model", [ApiToken, ComplaintDay, CreditEntry, Customer])
def test_pages_of_rows_have_fields_that_refuse_them(model: type[models.Model], rf: RequestFactory) -> None:
    options: Any = admin.site.get_model_admin(model)
    for each in model._meta.get_fields():
        if isinstance(each, models.IntegerField | models.DecimalField):
            field = options.formfield_for_dbfield(each, rf.get("/"))
            wanted = DecimalNumberField if isinstance(each, models.DecimalField) else WholeNumberField
            assert field is None or isinstance(field, wanted), each


def test_field_of_a_number_is_one_of_text() -> None:
    """Browsers drop the comma of 12,50 from others."""
    for field in (WholeNumberField(min_value=1), DecimalNumberField(decimal_places=2)):
        html = field.widget.render("amount", "12,50", field.widget.attrs)
        assert 'type="text"' in html
        assert 'value="12,50"' in html


@pytest.mark.once
def test_no_option_of_a_command_is_read_by_int() -> None:
    """ruff refuses Django's own fields in forms."""
    assert [module for module, source in product() if re.search(r"type=(int|float|Decimal)\b", source)] == []
