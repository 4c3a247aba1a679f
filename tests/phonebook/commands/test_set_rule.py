"""`set_rule` changes only the given fields, and refuses empty rules."""

import io
import json
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from lookup.answers import Found
from phonebook.models import NumberRule
from tests.api import NUMBER
from tests.phonebook.rows import rule_of

pytestmark = pytest.mark.django_db


def set_rule(*arguments: str) -> str:
    out = io.StringIO()
    call_command("set_rule", *arguments, stdout=out)
    return out.getvalue()


def as_json(*arguments: str) -> dict[str, Any]:
    return dict(json.loads(set_rule(NUMBER, *arguments, "--json")))


def test_new_rule_is_printed_and_found() -> None:
    assert set_rule("+49 3023-125042", "--spam", "yes") == f"{NUMBER} (DE): spam yes, no name\n"
    assert rule_of(NUMBER) == Found(spam=True)
    said = set_rule(NUMBER, "--spam", "unknown", "--name", "Alice Example", "--note", "asked us")
    assert said == f"{NUMBER} (DE): spam unknown, name Alice Example; asked us\n"


def test_only_given_fields_change() -> None:
    old = {"number": NUMBER, "prefix": False, "spam": True, "name": "Alice Example", "note": "asked us"}
    assert as_json("--spam", "yes", "--name", "Alice Example", "--note", "asked us") == old
    before = NumberRule.objects.get().updated_at
    assert as_json("--spam", "no") == {**old, "spam": False}
    assert as_json("--name", "Bob") == {**old, "spam": False, "name": "Bob"}
    assert as_json("--note", "") == {**old, "spam": False, "name": "Bob", "note": ""}
    assert as_json("--spam", "unknown") == {**old, "spam": None, "name": "Bob", "note": ""}
    assert NumberRule.objects.get().updated_at > before


@pytest.mark.parametrize(
    "arguments",
    [("--spam", "unknown"), ("--name", " \u202e "), ("--note", "only a note"), ("--spam", "unknown", "--name", "")],
)
def test_empty_rule_is_refused(arguments: tuple[str, ...]) -> None:
    with pytest.raises(CommandError, match="A rule needs"):
        set_rule(NUMBER, *arguments)
    assert not NumberRule.objects.exists()


@pytest.mark.parametrize("arguments", [(), ("--json",), ("--remove", "--spam", "yes"), ("--remove", "--name", "")])
def test_fields_or_removal_are_required_but_not_both(arguments: tuple[str, ...]) -> None:
    set_rule(NUMBER, "--name", "Alice Example")
    with pytest.raises(CommandError, match="--remove alone"):
        set_rule(NUMBER, *arguments)
    assert rule_of(NUMBER) == Found(name="Alice Example")


def test_removed_rule_is_not_found() -> None:
    set_rule(NUMBER, "--name", "Alice Example")
    assert set_rule(NUMBER, "--remove") == f"Removed the rule for {NUMBER}.\n"
    assert rule_of(NUMBER) is None
    assert set_rule(NUMBER, "--remove") == f"There was no rule for {NUMBER}.\n"
    assert as_json("--remove") == {"number": NUMBER, "removed": False}


def test_invalid_number_is_not_printed() -> None:
    with pytest.raises(CommandError) as raised:
        set_rule("030 23125042", "--spam", "yes")
    assert str(raised.value) == "Invalid phone number (must start with a country code)."


def test_prefix_rule_is_set_changed_and_removed() -> None:
    assert set_rule("+49 30", "--prefix", "--spam", "yes") == "4930… (prefix): spam yes, no name\n"
    assert rule_of(NUMBER) == Found(spam=True)
    assert set_rule("4930", "--name", "Berlin") == "4930… (prefix): spam yes, name Berlin\n"
    assert rule_of(NUMBER) == Found(spam=True, name="Berlin")
    assert set_rule("4930", "--remove") == "Removed the rule for 4930.\n"
    assert rule_of(NUMBER) is None


def test_number_rule_becomes_a_prefix_and_back() -> None:
    set_rule("4930231", "--spam", "no")
    assert rule_of(NUMBER) is None
    set_rule("4930231", "--prefix")
    assert rule_of(NUMBER) == Found(spam=False)
    assert rule_of("4930231") == Found(spam=False)
    set_rule("4930231", "--no-prefix")
    assert rule_of(NUMBER) is None


@pytest.mark.parametrize("arguments", [("4930",), ("1", "--no-prefix")])
def test_short_number_without_prefix_is_refused(arguments: tuple[str, ...]) -> None:
    with pytest.raises(CommandError, match="add --prefix"):
        set_rule(*arguments, "--spam", "yes")
    assert not NumberRule.objects.exists()


@pytest.mark.parametrize("text", ["", "030", "49*", "4" * 16])
def test_invalid_prefix_is_refused(text: str) -> None:
    with pytest.raises(CommandError, match="Invalid phone number"):
        set_rule(text, "--prefix", "--spam", "yes")
