"""Operator rules: what the operator says about a number. A rule overrides every connector, in both slots."""

from typing import NamedTuple

from django.db import transaction

from core.text import clean_text
from phonebook.models import NumberRule
from phonebook.number_query import NumberQuery, NumberRows

QUERY = NumberQuery("SELECT spam, name FROM phonebook_numberrule WHERE number = %s", 2)


class EmptyRule(ValueError):
    """A rule with neither a spam value nor a name."""


class Rule(NamedTuple):
    """What a search needs of a rule: `name` and `spam`, at least one of which is not None."""

    name: str | None
    spam: bool | None


async def find(rows: NumberRows) -> Rule | None:
    """The rule for the rows' number, or None."""
    spam, name = await rows.get(QUERY) or (None, "")
    if spam is None and not name:
        return None
    return Rule(name or None, None if spam is None else bool(spam))


def set_rule(number: str, **fields: str | bool | None) -> NumberRule:
    """Create or change the rule for `number`; fields that are not given keep their value. Cleans text as answers do.

    `spam`: None leaves it to the sources. `name`: empty leaves it to the sources. `note`: for operators. Raises
    EmptyRule, with nothing changed.
    """
    with transaction.atomic():
        rule, _ = NumberRule.objects.select_for_update().get_or_create(number=int(number))
        for field, value in fields.items():
            setattr(rule, field, clean_text(value) if isinstance(value, str) else value)
        if rule.spam is None and not rule.name:
            raise EmptyRule
        rule.save()
    return rule


def remove(number: str) -> bool:
    """Delete the rule for `number`; returns whether there was one."""
    return NumberRule.objects.filter(number=int(number)).delete()[0] > 0
