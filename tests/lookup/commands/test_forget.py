"""`forget`, as an operator types it: all or nothing, and no number in what it says."""

import io
import json
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from lookup import marks
from lookup.models import Contact
from tests.api import NUMBER

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


def test_it_says_what_it_removed_and_repeats_neither_number_nor_name() -> None:
    said = forget("+49 30 2312-5042", OTHER)
    assert said == (
        "Forgot 49********42 (DE), 1********42 (US). Deleted: contacts 2, complaint days 0 (subjects 0), rules 0. "
        "Emptied: ledger rows 0, remembered answers 0, entries of the admin's history 0.\n"
    )
    assert not Contact.objects.exists()


def test_the_same_as_json() -> None:
    assert as_json(NUMBER) == {
        "numbers": ["49********42"],
        "contacts": 1,
        "complaint_days": 0,
        "rules": 0,
        "subjects": 0,
        "overwritten": None,
        "ledger_entries": 0,
        "stored_answers": 0,
        "admin_entries": 0,
        "blocked": 0,
    }


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ("4930231250-x", "must contain only digits"),
        ("+49 (0)30 23125042", "must not hold a (0)"),
        ("030 23125042", "must start with a country code"),
        ("", "must contain only digits"),
        ("12345", "must have 7 to 15 digits"),
    ],
)
def test_one_that_is_no_number_removes_nothing_and_is_not_repeated(bad: str, why: str) -> None:
    with pytest.raises(CommandError) as raised:
        forget(NUMBER, bad, "--block")
    assert str(raised.value) == f"argument 2: invalid phone number ({why}). Nothing was changed."
    assert Contact.objects.count() == 2
    assert marks.find(NUMBER) == ""


def test_a_number_in_no_countrys_plan_is_forgotten_too() -> None:
    Contact.objects.create(number=9990000001, name="x")
    assert as_json("9990000001")["contacts"] == 1


def test_block_and_unblock() -> None:
    assert forget(NUMBER, "--block").endswith(" Blocked: imports leave out 1 of 1 numbers.\n")
    assert as_json(NUMBER)["blocked"] == 1  # forgetting it again does not lift the block
    assert marks.hash_of(NUMBER) in marks.blocked_hashes()
    assert forget(NUMBER, OTHER, "--unblock") == "Unblocked 1 of 2 numbers: imports take them again.\n"
    assert as_json(NUMBER, "--unblock") == {"numbers": ["49********42"], "unblocked": 0}
    assert not marks.blocked_hashes()
    assert Contact.objects.filter(number=int(OTHER)).exists()  # which forgot nothing


def test_block_and_unblock_exclude_each_other() -> None:
    with pytest.raises(CommandError, match="not allowed with argument"):
        forget(NUMBER, "--block", "--unblock")
    assert Contact.objects.count() == 2


def test_its_help_says_what_it_does_not_reach(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        call_command("forget", "--help")
    said = " ".join(capsys.readouterr().out.split())
    assert all(word in said for word in ("backups", "logs", "vendors", "already sent", "under way", "--block"))


def test_a_number_that_nothing_is_known_of_may_be_another_countrys() -> None:
    """4155550130 lacks its 1: it is a Swiss one."""
    err = io.StringIO()
    call_command("forget", "4155550130", stdout=io.StringIO(), stderr=err)
    assert err.getvalue() == "Nothing was stored about 41******30 (CH). Is the country right?\n"
    err = io.StringIO()
    call_command("forget", NUMBER, stdout=io.StringIO(), stderr=err)
    assert err.getvalue() == ""
