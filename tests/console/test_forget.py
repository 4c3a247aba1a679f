"""`forget` erases all numbers or none, and never prints them."""

import io
import json
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from core.retention import NUMBERED
from phonebook.models import Contact
from phonebook.suppression import SuppressedNumbers
from tests.api import NUMBER
from tests.phonebook.rows import cache_version_of
from tests.plugin import of_addons

pytestmark = pytest.mark.django_db
OTHER = "12125550142"


def forget(*arguments: str) -> str:
    out = io.StringIO()
    call_command("forget", *arguments, stdout=out)
    return out.getvalue()


def as_json(*arguments: str) -> dict[str, Any]:
    return dict(json.loads(forget(*arguments, "--json")))


@pytest.fixture(autouse=True)
def _contacts() -> None:
    for number in (NUMBER, OTHER):
        Contact.objects.create(number=int(number), name="Alice Example")


def test_output_counts_deletions_without_number_or_name() -> None:
    said = forget("+49 30 2312-5042", OTHER)
    assert said == (
        "Erased 49********42 (DE), 1********42 (US). Deleted: contacts 2, "
        "complaint days 0 (subjects 0), rules 0. "
        "Cleared: imports 0, ledger entries 0, stored answers 0, history entries 0."
        + "".join(f" {each.title}: 0." for each in NUMBERED)
        + "\n"
    )
    assert not Contact.objects.exists()


def test_json_output() -> None:
    assert as_json(NUMBER) == {
        "numbers": ["49********42"],
        "contacts": 1,
        "complaint_days": 0,
        "rules": 0,
        "subjects": 0,
        "imports": 0,
        **of_addons("ERASED"),
        "overwritten": None,
        "ledger_entries": 0,
        "stored_answers": 0,
        "admin_entries": 0,
        **of_addons("ERASED"),
        "blocked": 0,
        **{each.name: 0 for each in NUMBERED},
    }


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ("4930231250-x", "must contain only digits"),
        ("+999 (0)30 23125042", "must not hold a (0)"),
        ("030 23125042", "must start with a country code"),
        ("", "must contain only digits"),
        ("12345", "must have 7 to 15 digits"),
    ],
)
def test_invalid_number_erases_nothing_and_is_not_printed(bad: str, why: str) -> None:
    with pytest.raises(CommandError) as raised:
        forget(NUMBER, bad, "--block")
    assert str(raised.value) == f"argument 2: invalid phone number ({why}). Nothing was changed."
    assert Contact.objects.count() == 2
    assert cache_version_of(NUMBER) == ""


@pytest.mark.parametrize(
    "text", ["+49 030 23125042", "+49 (0)30\u202f23125\u2013042", "tel:+4930-23125042", "4903023125042"]
)
def test_every_spelling_erases_what_imports_stored(text: str) -> None:
    assert as_json(text)["contacts"] == 1
    assert not Contact.objects.filter(number=int(NUMBER)).exists()


@pytest.mark.parametrize("text", ["4903023125042", "+49 030 23125042"])
def test_digits_as_the_api_took_them_are_erased_too(text: str) -> None:
    Contact.objects.create(number=4903023125042, name="x")
    assert as_json(text)["contacts"] == 2


def test_number_outside_every_numbering_plan_is_erased() -> None:
    Contact.objects.create(number=9990000001, name="x")
    assert as_json("9990000001")["contacts"] == 1


def test_block_and_unblock() -> None:
    assert forget(NUMBER, "--block").endswith(" Blocked: imports skip 1 of 1 numbers.\n")
    assert as_json(NUMBER)["blocked"] == 1  # erasing it again does not lift the block
    assert NUMBER in SuppressedNumbers()
    assert forget(NUMBER, OTHER, "--unblock") == "Unblocked 1 of 2 numbers: imports add them again.\n"
    assert as_json(NUMBER, "--unblock") == {"numbers": ["49********42"], "unblocked": 0}
    assert not SuppressedNumbers()
    assert Contact.objects.filter(number=int(OTHER)).exists()  # --unblock erased nothing


def test_unknown_number_warns_that_the_country_may_be_wrong() -> None:
    """4155550130 without its 1 is a Swiss number."""
    err = io.StringIO()
    call_command("forget", "4155550130", stdout=io.StringIO(), stderr=err)
    assert err.getvalue() == "Nothing was stored about 41******30 (CH). Is the country right?\n"
    err = io.StringIO()
    call_command("forget", NUMBER, stdout=io.StringIO(), stderr=err)
    assert err.getvalue() == ""
