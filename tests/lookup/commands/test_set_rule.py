"""`set_rule`: what is not given stays, and a rule that says nothing is none."""

import io
import json
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from lookup import rules
from lookup.answers import Found
from lookup.models import NumberRule
from tests.api import NUMBER

pytestmark = pytest.mark.django_db


def set_rule(*arguments: str) -> str:
    out = io.StringIO()
    call_command("set_rule", *arguments, stdout=out)
    return out.getvalue()


def as_json(*arguments: str) -> dict[str, Any]:
    return dict(json.loads(set_rule(NUMBER, *arguments, "--json")))


def test_it_makes_a_rule_that_a_search_finds_and_says_what_it_is() -> None:
    assert set_rule("+49 3023-125042", "--spam", "yes") == f"{NUMBER} (DE): spam yes, no name\n"
    assert rules.find(NUMBER) == Found(spam=True)


def test_what_is_not_given_stays_and_what_is_given_changes() -> None:
    old = {"number": NUMBER, "spam": True, "name": "Alice Example", "note": "asked us"}
    assert as_json("--spam", "yes", "--name", "Alice Example", "--note", "asked us") == old
    before = NumberRule.objects.get().updated_at
    assert as_json("--spam", "no") == {**old, "spam": False}
    assert as_json("--name", "Bob") == {**old, "spam": False, "name": "Bob"}
    assert as_json("--note", "") == {"number": NUMBER, "spam": False, "name": "Bob", "note": ""}
    assert as_json("--spam", "unknown") == {"number": NUMBER, "spam": None, "name": "Bob", "note": ""}
    assert NumberRule.objects.get().updated_at > before


def test_a_note_is_shown() -> None:
    said = set_rule(NUMBER, "--name", "Alice Example", "--note", "asked us")
    assert said == f"{NUMBER} (DE): spam unknown, name Alice Example; asked us\n"


def test_text_is_cleaned_before_it_is_stored() -> None:
    assert as_json("--name", "  Alice\u202e\x07   Example ", "--note", "line\r\nbreak") == {
        "number": NUMBER,
        "spam": None,
        "name": "Alice Example",
        "note": "line break",
    }


@pytest.mark.parametrize(
    "arguments",
    [("--spam", "unknown"), ("--name", " \u202e "), ("--note", "only a note"), ("--spam", "unknown", "--name", "")],
)
def test_a_rule_that_says_nothing_is_refused(arguments: tuple[str, ...]) -> None:
    with pytest.raises(CommandError, match="A rule needs"):
        set_rule(NUMBER, *arguments)
    assert not NumberRule.objects.exists()


def test_a_rule_does_not_become_one_that_says_nothing() -> None:
    set_rule(NUMBER, "--spam", "yes")
    with pytest.raises(CommandError, match="Nothing was changed"):
        set_rule(NUMBER, "--spam", "unknown", "--note", "x")
    assert NumberRule.objects.values_list("spam", "note").get() == (True, "")


@pytest.mark.parametrize("arguments", [(), ("--json",), ("--remove", "--spam", "yes"), ("--remove", "--name", "")])
def test_it_wants_a_word_or_a_removal_and_not_both(arguments: tuple[str, ...]) -> None:
    set_rule(NUMBER, "--name", "Alice Example")
    with pytest.raises(CommandError, match="--remove alone"):
        set_rule(NUMBER, *arguments)
    assert rules.find(NUMBER) == Found(name="Alice Example")


def test_a_removed_rule_is_gone() -> None:
    set_rule(NUMBER, "--name", "Alice Example")
    assert set_rule(NUMBER, "--remove") == f"Removed the rule for {NUMBER}.\n"
    assert rules.find(NUMBER) is None
    assert set_rule(NUMBER, "--remove") == f"There was no rule for {NUMBER}.\n"
    assert as_json("--remove") == {"number": NUMBER, "removed": False}


def test_what_is_no_number_is_not_repeated() -> None:
    with pytest.raises(CommandError) as raised:
        set_rule("030 23125042", "--spam", "yes")
    assert str(raised.value) == "Invalid phone number (must start with a country code)."
