"""The operator's word about a number: it stands above every connector, in both slots."""

from typing import TypedDict, Unpack

from django.db import transaction
from django.utils import timezone

from lookup.answers import Found, clean_text
from lookup.models import NumberRule
from lookup.selects import Row, Select

SELECT = Select(
    "SELECT spam, name FROM lookup_numberrule WHERE number = %s", 2, parameters=lambda number: [int(number)]
)


class SaysNothing(ValueError):
    """A rule with neither a verdict nor a name."""


class Word(TypedDict, total=False):
    """What a rule says: spam or not (None leaves that to the sources), a name (empty: likewise), and a note."""

    spam: bool | None
    name: str
    note: str


def find(number: str) -> Found | None:
    """The rule for `number`, or None. One SQL statement."""
    return read(SELECT.row(number))


def read(row: Row | None) -> Found | None:
    """What a row of SELECT says."""
    if row is None or (row[0] is None and not row[1]):
        return None
    spam, name = row
    return Found(name=name or None, spam=None if spam is None else bool(spam))


def set_rule(number: str, **word: Unpack[Word]) -> NumberRule:
    """Make the rule for `number`, or change it: what is not given stays. Text is cleaned as any answer's.

    Raises SaysNothing, with nothing changed.
    """
    with transaction.atomic():
        rule = NumberRule.objects.select_for_update().filter(pk=int(number)).first() or NumberRule(pk=int(number))
        for field, value in word.items():
            setattr(rule, field, clean_text(value) if isinstance(value, str) else value)
        if rule.spam is None and not rule.name:
            raise SaysNothing
        rule.updated_at = timezone.now()
        rule.save()
    return rule


def remove(number: str) -> bool:
    """Whether there was one."""
    return NumberRule.objects.filter(pk=int(number)).delete()[0] > 0
