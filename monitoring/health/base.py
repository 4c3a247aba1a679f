"""What a health check is."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from django.http import HttpRequest

from monitoring.incidents import Condition, Severity

#: An incident about a percentage stays open until it has fallen to this share of what opens it.
STAYS_OPEN = 0.5


@dataclass(frozen=True, slots=True)
class Context:
    """`now`: in UTC. `request`: of the console's page that shows the results, whose headers show which proxies it
    passed; None in commands."""

    now: datetime
    request: HttpRequest | None = None


#: The conditions that a check finds, and sentences about what is in order. Nothing where the check does not apply.
Findings = Iterator[Condition | str]


@dataclass(frozen=True, slots=True)
class Check:
    """`kinds`: of the incidents that it opens. `is_delayed`: they open and close with delay, because their conditions
    change quickly. `needs_tables`: it reads tables of ours. `in_doctor`, `on_dashboard`: where its result is shown.
    `find` raises django.db's errors."""

    name: str
    find: Callable[[Context], Findings]
    kinds: tuple[str, ...] = ()
    is_delayed: bool = False
    needs_tables: bool = True
    in_doctor: bool = True
    on_dashboard: bool = False


class Result(NamedTuple):
    """`detail`: sentences; if unhealthy, also what to do."""

    component: str
    healthy: bool
    detail: str


def problem(title: str, hint: str = "") -> Condition:
    """A condition that opens no incident."""
    return Condition(kind="", subject="", title=title, hint=hint, severity=Severity.PROBLEM)


def result(check: Check, context: Context) -> Result | None:
    """The result of the check, or None where it does not apply."""
    conditions, sentences = [], []
    for found in check.find(context):
        if isinstance(found, str):
            sentences.append(found)
        elif found.severity is not Severity.PASSING:
            conditions.append(found)
    described: list[str] = []
    for hint, same_hint in groupby(conditions, key=attrgetter("hint")):
        described += [text for each in same_hint for text in (f"{each.title.removesuffix('.')}.", each.summary)]
        described.append(hint)
    detail = " ".join(filter(None, [*described, *sentences]))
    return Result(check.name, not conditions, detail) if detail else None
