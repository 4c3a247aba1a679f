"""Calls, state and cost of each source, for the console."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from django.conf import settings

from core import periods
from lookup import statistics
from lookup.connectors.registry import BUILT_IN, Member
from lookup.models import SourcePause, SourceResult
from lookup.search import SLOTS, members
from lookup.slot import RULES_SOURCE
from lookup.source_actions import configured
from lookup.statistics import BreakerUsage, SourceUsage

HOUR, LOOK_BACK = timedelta(hours=1), timedelta(days=1)
#: A source is called failing for this long after a failure.
RECENT = timedelta(minutes=5)
#: A source that also answers is failing from this percentage of failures.
FAILING_PERCENT = 10
#: A source that is called rarely is failing from so many failures without an answer.
MIN_FAILURES = 3


@dataclass(frozen=True, slots=True)
class Source:
    """A connector in one slot, or the operator rules. `member`: None if the slot is not configured with it. `price`: of
    one call, in CURRENCY; None if none is set. `breaker`: events of all processes. `pause`: None unless an operator has
    paused it."""

    usage: SourceUsage
    member: Member | None
    remote: bool
    price: Decimal | None
    breaker: BreakerUsage
    pause: SourcePause | None

    @property
    def configured(self) -> bool:
        return self.member is not None or self.usage.connector == RULES_SOURCE

    @property
    def has_page(self) -> bool:
        """Whether the console has a page about it."""
        return self.usage.connector != RULES_SOURCE

    @property
    def cost(self) -> Decimal | None:
        return None if self.price is None else self.price * self.usage.calls

    @property
    def open_here(self) -> bool | None:
        """Whether the circuit breaker of this process is open; None if there is none."""
        return self.member.guard.breaker.is_open if self.member and self.member.guard else None


@dataclass(frozen=True, slots=True)
class Report:
    sources: list[Source]
    currency: str

    @property
    def cost(self) -> Decimal:
        """Cost of all calls that have a price."""
        return sum((source.cost for source in self.sources if source.cost is not None), Decimal(0))

    @property
    def calls_without_price(self) -> int:
        return sum(source.usage.calls for source in self.sources if source.price is None)


def report(since: datetime) -> Report:
    """The sources of each slot in the hours from `since` on. Two statements.

    In this order: the operator rules, if one supplied a field; the configured sources, called or not, in the order in
    which they are called; sources that were called and are no longer configured.
    """
    usages, breakers = statistics.by_source(since)
    paused = SourcePause.objects.in_bulk()
    sources = []
    for slot, (setting, _) in SLOTS.items():
        configured = {member.name: member for member in members(slot)}
        prices: dict[str, Decimal] = getattr(settings, f"{setting}_PRICE")
        used = [name for used_in, name in usages if used_in == slot]
        rules = [name for name in used if name == RULES_SOURCE]
        for name in dict.fromkeys([*rules, *configured, *used]):
            member = configured.get(name)
            # A source that is no longer configured is taken to be remote unless it is built in.
            remote = member.connector.remote if member else name not in (*BUILT_IN, RULES_SOURCE)
            source = Source(
                usage=usages.get((slot, name)) or SourceUsage(slot, name),
                member=member,
                remote=remote,
                price=prices.get(name, prices.get("*")) if remote else Decimal(0),
                breaker=breakers.get(name) or BreakerUsage(name),
                pause=paused.get(name),
            )
            sources.append(source)
    return Report(sources, settings.CURRENCY)


@dataclass(frozen=True, slots=True)
class Failures:
    """Of a configured source that failed within LOOK_BACK, in any process: `failed` of `total` lookups of `usages`,
    without those while it was paused. `unanswered`: it has not answered since `last`."""

    last: SourceResult
    failed: int
    total: int
    unanswered: bool
    is_recent: bool

    @property
    def percent(self) -> float:
        return 100 * self.failed / self.total if self.total >= settings.ALERT_MIN_COUNT else 0.0

    @property
    def is_failing(self) -> bool:
        """It failed within RECENT, and has not answered since or failed FAILING_PERCENT of its lookups; or, if it is
        called rarely, it failed all of at least MIN_FAILURES."""
        if self.unanswered:
            return self.is_recent or self.failed == self.total >= MIN_FAILURES
        return self.is_recent and self.percent >= FAILING_PERCENT


def failures(last: SourceResult, answered_at: datetime | None, usage: SourceUsage, now: datetime) -> Failures:
    unanswered = answered_at is None or answered_at <= last.at
    return Failures(last, usage.failed_unpaused, usage.unpaused, unanswered, last.at > now - RECENT)


def usages(now: datetime) -> dict[str, SourceUsage]:
    """The lookups of each configured source that no operator has paused, in the current hour, or, while that has fewer
    than ALERT_MIN_COUNT, also in the hour before. Three statements."""
    hour = periods.hour(now)
    this_hour, both_hours = (statistics.by_source(since)[0] for since in (hour, hour - HOUR))
    names = configured().keys() - set(SourcePause.objects.values_list("connector", flat=True))
    return {
        name: enough(statistics.of_all_slots(this_hour, name), statistics.of_all_slots(both_hours, name))
        for name in configured()
        if name in names
    }


def enough(this_hour: SourceUsage, both_hours: SourceUsage) -> SourceUsage:
    return this_hour if this_hour.unpaused >= settings.ALERT_MIN_COUNT else both_hours


def failed(now: datetime, used: Mapping[str, SourceUsage]) -> list[Failures]:
    """The sources in `used` that failed within LOOK_BACK. Statistics are up to write_buffer.FLUSH_INTERVAL_S old. One
    statement."""
    answered, results = statistics.last_results(now - LOOK_BACK)
    last = {failure.connector: failure for failure in reversed(results)}
    return [failures(last[name], answered.get(name), usage, now) for name, usage in used.items() if name in last]


def failing(now: datetime) -> list[Failures]:
    """The sources that are failing. Four statements."""
    return [each for each in failed(now, usages(now)) if each.is_failing]
