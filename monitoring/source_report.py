"""Calls and cost of each source, for the console, and its state, for the console, health checks and alerts."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Literal

from django.conf import settings

from core import periods
from lookup.connectors.registry import BUILT_IN, Member
from lookup.models import SourcePause
from lookup.search import SLOTS, members
from lookup.slot import RULES_SOURCE
from lookup.source_actions import configured
from monitoring import source_statistics
from monitoring.models import SourceResult
from monitoring.source_statistics import BreakerUsage, SourceUsage

HOUR, LOOK_BACK = timedelta(hours=1), timedelta(days=1)
#: A source is called failing for this long after a failure.
RECENT = timedelta(minutes=5)
#: A source that also answers is failing from this percentage of failures.
FAILING_PERCENT = 10
#: A source that is called rarely is failing from so many failures without an answer.
MIN_FAILURES = 3


@dataclass(frozen=True, slots=True)
class SourceRow:
    """A connector in one slot, or the operator rules. `member`: None if the slot is not configured with it. `breaker`:
    events of all processes. `pause`: None unless an operator has paused it."""

    usage: SourceUsage
    member: Member | None
    breaker: BreakerUsage | None = None
    pause: SourcePause | None = None

    @property
    def has_page(self) -> bool:
        """Whether the console has a page about it."""
        return self.usage.connector != RULES_SOURCE

    @property
    def setting(self) -> str:
        """The name of the setting that configures its slot."""
        return SLOTS[self.usage.slot][0]

    @property
    def place(self) -> str:
        """When its slot calls it, as `2 of 3`; empty if the slot is not configured with it."""
        bound = members(self.usage.slot)
        return f"{bound.index(self.member) + 1} of {len(bound)}" if self.member else ""

    @property
    def remote(self) -> bool:
        """A source that is no longer configured is taken to be remote unless it is built in."""
        return self.member.connector.remote if self.member else self.usage.connector not in (*BUILT_IN, RULES_SOURCE)

    @property
    def price(self) -> Decimal | None:
        """Of one call, in CURRENCY; None if none is set."""
        prices: dict[str, Decimal] = getattr(settings, f"{self.setting}_PRICE")
        return prices.get(self.usage.connector, prices.get("*")) if self.remote else Decimal(0)

    @property
    def cost(self) -> Decimal | None:
        return None if self.price is None else self.price * self.usage.calls


@dataclass(frozen=True, slots=True)
class Report:
    sources: list[SourceRow]
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
    usages = source_statistics.by_source(since)
    paused = SourcePause.objects.in_bulk()
    sources = []
    for slot in SLOTS:
        configured = {member.name: member for member in members(slot)}
        used = [name for used_in, name in usages.sources if used_in == slot]
        rules = [name for name in used if name == RULES_SOURCE]
        for name in dict.fromkeys([*rules, *configured, *used]):
            usage = usages.sources.get((slot, name)) or SourceUsage(slot, name)
            sources.append(SourceRow(usage, configured.get(name), usages.breakers.get(name), paused.get(name)))
    return Report(sources, settings.CURRENCY)


@dataclass(frozen=True, slots=True)
class State:
    """A configured source now. `usage`: in the current hour or, while that has fewer than ALERT_MIN_COUNT lookups, also
    in the hour before; in all slots and processes. `last_failure`, `answered_at`: None if it has not failed or answered
    within LOOK_BACK. `opened`: how often its circuit breaker has opened this hour in all processes. `pause`: None
    unless an operator has paused it."""

    member: Member
    usage: SourceUsage
    last_failure: SourceResult | None
    answered_at: datetime | None
    opened: int
    pause: SourcePause | None
    now: datetime

    @property
    def name(self) -> Literal["paused", "breaker", "failing", "healthy"]:
        if self.pause:
            return "paused"
        if self.member.breaker_is_open:
            return "breaker"
        return "failing" if self.is_failing else "healthy"

    @property
    def failed_percent(self) -> float:
        """Of its lookups, without those while it was paused; 0 if they are fewer than ALERT_MIN_COUNT."""
        total = self.usage.unpaused
        return 100 * self.usage.failed_unpaused / total if total >= settings.ALERT_MIN_COUNT else 0.0

    @property
    def has_just_failed(self) -> bool:
        return self.last_failure is not None and self.last_failure.at > self.now - RECENT

    @property
    def is_unanswered(self) -> bool:
        """It has failed, and has not answered since."""
        return self.last_failure is not None and (self.answered_at is None or self.answered_at <= self.last_failure.at)

    @property
    def is_failing(self) -> bool:
        """It failed within RECENT, and has not answered since or failed FAILING_PERCENT of its lookups; or, if it is
        called rarely, it failed all of at least MIN_FAILURES. A paused source is not failing."""
        if self.pause:
            return False
        if self.is_unanswered:
            return self.has_just_failed or self.usage.failed_unpaused == self.usage.unpaused >= MIN_FAILURES
        return self.has_just_failed and self.failed_percent >= FAILING_PERCENT


def states(now: datetime) -> dict[str, State]:
    """The state of each configured source, by name. Statistics are up to 2 s old (core.write_buffer). Four
    statements."""
    hour = periods.hour(now)
    this_hour, both_hours = source_statistics.by_source(hour), source_statistics.by_source(hour - HOUR)
    answered, failures = source_statistics.last_results(now - LOOK_BACK)
    last_failures = {failure.connector: failure for failure in reversed(failures)}
    paused = SourcePause.objects.in_bulk()
    found = {}
    for name, member in configured().items():
        usage = this_hour.totals.get(name)
        if usage is None or usage.unpaused < settings.ALERT_MIN_COUNT:
            usage = both_hours.totals.get(name)
        found[name] = State(
            member=member,
            usage=usage or SourceUsage("", name),
            last_failure=last_failures.get(name),
            answered_at=answered.get(name),
            opened=this_hour.breakers[name].opened if name in this_hour.breakers else 0,
            pause=paused.get(name),
            now=now,
        )
    return found
