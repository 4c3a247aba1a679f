"""What a health check is, and the list of all. A check is one function with the decorator `check`."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from django.http import HttpRequest

from core import db

#: An alert about a percentage stays open until it has fallen to this share of what opens it.
STAYS_OPEN = 0.5
#: Kinds of conditions in which searches fail or lack answers, or money is wrong. They are shown before all others.
CRITICAL = frozenset({"searches.failing", "source.failing", "redis.unavailable", "audit.failed"})


class Effect(Enum):
    """What a condition does. All but ENDED keep an alert about it open that is open already."""

    #: Is shown as a problem, and opens an alert.
    ALERT = auto()
    #: Is shown as a problem only.
    PROBLEM = auto()
    #: Nothing else. A condition at its limit would otherwise open and close alerts all the time.
    PASSING = auto()
    #: The opposite: closes an open alert without delay, with its own summary and hint.
    ENDED = auto()


@dataclass(frozen=True, slots=True)
class Condition:
    """What a checker sees now. `title`, `summary` and `hint` (what an operator can do): one line each, without a
    phone number. They may name a token and its customer: never log them. `kind`: empty if there are no alerts about
    it. `ended_because`: of ENDED, such as "the source is paused"."""

    kind: str
    subject: str
    title: str
    summary: str = ""
    hint: str = ""
    effect: Effect = Effect.ALERT
    ended_because: str = ""


#: That of the console's page that shows the results, whose headers show which proxies it passed; None in commands.
Request = HttpRequest | None
#: The conditions that a check finds, and sentences about what is in order. Nothing where the check does not apply.
Findings = Iterator[Condition | str]


class NotUsed(str):
    """A sentence that says why there is nothing to check."""

    __slots__ = ()


class Result(NamedTuple):
    """`detail`: sentences; if unhealthy, also what to do. `used`: False if there is nothing to check; it is healthy
    then. `critical`: a condition of it is of a kind in CRITICAL."""

    component: str
    healthy: bool
    detail: str
    used: bool = True
    critical: bool = False

    @property
    def state(self) -> str:
        return ("healthy" if self.healthy else "unhealthy") if self.used else "not used"


@dataclass(frozen=True, slots=True)
class Check:
    """`find` raises django.db's errors. `kinds`: of its conditions that open alerts, each with what the subjects of
    several do, such as "sources are failing". `is_delayed`: alerts open and close with delay, because the conditions
    change quickly. `in_doctor`, `on_dashboard`: where its result is shown."""

    name: str
    find: Callable[[Request], Findings]
    kinds: Mapping[str, str] = field(default_factory=dict)
    is_delayed: bool = False
    in_doctor: bool = True
    on_dashboard: bool = False

    def result(self, request: Request = None, reported: Collection[tuple[str, str]] = ()) -> Result | None:
        """None where the check does not apply, or if it finds only what is in `reported`: kinds and subjects of
        conditions that are shown already."""
        conditions, sentences = [], []
        for found in self.find(request):
            if isinstance(found, str):
                sentences.append(found)
            elif found.effect in (Effect.ALERT, Effect.PROBLEM):
                conditions.append(found)
        described: list[str] = []
        used = bool(conditions) or not any(isinstance(each, NotUsed) for each in sentences)
        shown = [each for each in conditions if (each.kind, each.subject) not in reported]
        if conditions and not shown:
            return None
        for hint, same_hint in groupby(shown, key=attrgetter("hint")):
            described += [text for each in same_hint for text in (f"{each.title.removesuffix('.')}.", each.summary)]
            described.append(hint)
        detail = " ".join(filter(None, [*described, *sentences]))
        critical = any(each.kind in CRITICAL for each in shown)
        return Result(self.name, not conditions, detail, used, critical) if detail else None


#: All health checks, in the order in which they are shown. Those after `Database` read its tables.
CHECKS: list[Check] = []


def check(
    name: str, kinds: Mapping[str, str] | None = None, *, on_sqlite: bool = True, **options: bool
) -> Callable[[Callable[[Request], Findings]], Check]:
    """Makes the function a Check, and adds it to CHECKS, unless the database is SQLite and it has no meaning there."""

    def add(find: Callable[[Request], Findings]) -> Check:
        added = Check(name, find, kinds or {}, **options)
        if on_sqlite or db.VENDOR != "sqlite":
            CHECKS.append(added)
        return added

    return add


def problem(title: str, hint: str = "") -> Condition:
    """A condition that opens no alert."""
    return Condition(kind="", subject="", title=title, hint=hint, effect=Effect.PROBLEM)
