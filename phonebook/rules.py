"""Operator rules: what the operator says about a number, or about all numbers with a prefix. The longest rule for a
number overrides every connector, in both slots; shorter ones have no effect on it."""

from typing import NamedTuple

from django.db import transaction
from django.db.models import Q, QuerySet

from core import numbers
from core.text import clean_text
from phonebook.models import NumberRule
from phonebook.number_query import NumberQuery, NumberRows

# All candidates are prefixes of one number, so the longest is the largest. They are computed in the statement, because
# each parameter costs a search more than the division does.
QUERY = NumberQuery(
    f"""
    SELECT spam, name, number, is_prefix
    FROM (SELECT CAST(%s AS bigint) AS whole) given
    JOIN phonebook_numberrule ON number IN ({", ".join(f"whole / {10**n}" for n in range(numbers.MAX_DIGITS))})
    WHERE is_prefix OR number = whole ORDER BY number DESC LIMIT 1
    """,  # noqa: S608
    4,
)


class EmptyRule(ValueError):
    """A rule with neither a spam value nor a name."""


class TooShort(ValueError):
    """A rule for fewer digits than a number has, which is not for a prefix."""


class Rule(NamedTuple):
    """What a search needs of a rule: `name` and `spam`, at least one of which is not None."""

    name: str | None
    spam: bool | None
    number: int
    is_prefix: bool


def shown(rule: Rule | NumberRule) -> str:
    """The rule's number or prefix, for operators: `+49 30 23125042`, `+4930…`."""
    return f"+{rule.number}…" if rule.is_prefix else numbers.formatted(str(rule.number))


async def find(rows: NumberRows) -> Rule | None:
    """The rule for the rows' number, or None."""
    spam, name, number, is_prefix = await rows.get(QUERY) or (None, "", 0, False)
    if spam is None and not name:
        return None
    return Rule(name or None, None if spam is None else bool(spam), number, bool(is_prefix))


def applying(number: int | str) -> QuerySet[NumberRule]:
    """The rules for `number`, the one that applies first."""
    prefixes = [int(str(number)[:length]) for length in range(1, len(str(number)) + 1)]
    rules = NumberRule.objects.filter(Q(is_prefix=True) | Q(number=number), number__in=prefixes)
    return rules.order_by("-number")


def shorter(rule: NumberRule) -> QuerySet[NumberRule]:
    """The rules that `rule` overrides for its numbers, the longest first."""
    return applying(rule.number).exclude(number=rule.number)


def longer(rule: NumberRule) -> QuerySet[NumberRule]:
    """The rules that override `rule` for some of its numbers, in ascending order."""
    within = Q(pk__in=[])
    if rule.is_prefix:
        for more in range(1, numbers.MAX_DIGITS - len(str(rule.number)) + 1):
            within |= Q(number__gte=rule.number * 10**more, number__lt=(rule.number + 1) * 10**more)
    return NumberRule.objects.filter(within).order_by("number")


def set_rule(number: str, **fields: str | bool | None) -> NumberRule:
    """Create or change the rule for `number`; fields that are not given keep their value. Cleans text as answers do.

    `number`: of 1 to 15 digits. `is_prefix`: required of fewer than 7 digits. `spam`: None leaves it to the sources.
    `name`: empty leaves it to the sources. `note`: for operators. Raises EmptyRule or TooShort, with nothing changed.
    """
    with transaction.atomic():
        rule, _ = NumberRule.objects.select_for_update().get_or_create(number=int(number))
        for field, value in fields.items():
            setattr(rule, field, clean_text(value) if isinstance(value, str) else value)
        if not rule.is_prefix and len(number) < numbers.MIN_DIGITS:
            raise TooShort
        if rule.spam is None and not rule.name:
            raise EmptyRule
        rule.save()
    return rule


def remove(number: str) -> bool:
    """Delete the rule for `number`; returns whether there was one."""
    return NumberRule.objects.filter(number=int(number)).delete()[0] > 0
