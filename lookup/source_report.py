"""Calls, state and cost of each source, for the console."""

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
from lookup.statistics import BreakerUsage, SourceUsage

#: A source is called failing for this long after a failure.
RECENT = timedelta(minutes=5)
#: A source that also answers is failing from this percentage of failures in the current hour.
FAILING_PERCENT = 10


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
class FailingSource:
    """A configured source whose recent calls failed, in any process: `failed` of `total` lookups in the current hour,
    without those while it was paused."""

    last: SourceResult
    failed: int
    total: int


def failing(now: datetime) -> list[FailingSource]:
    """The configured sources that failed within RECENT and have not answered since, or that failed FAILING_PERCENT of
    the calls of the current hour; not those that an operator has paused. Statistics are up to
    counters.FLUSH_INTERVAL_S old. Three statements."""
    answered, recent = statistics.last_results(now - RECENT)
    usages, _ = statistics.by_source(periods.hour(now))
    paused = set(SourcePause.objects.values_list("connector", flat=True))
    last = {failure.connector: failure for failure in reversed(recent)}
    found = []
    for name in dict.fromkeys(member.name for slot in SLOTS for member in members(slot)):
        if name not in last or name in paused:
            continue
        usage = statistics.of_all_slots(usages, name)
        if is_failing(last[name].at, answered.get(name), usage.failed_unpaused, usage.unpaused):
            found.append(FailingSource(last[name], usage.failed_unpaused, usage.unpaused))
    return found


def is_failing(failed_at: datetime, answered_at: datetime | None, failed: int, total: int) -> bool:
    """Whether a source that failed within RECENT is called failing. `failed` of `total`: in the current hour."""
    answered_since = answered_at is not None and answered_at > failed_at
    return not answered_since or 100 * failed >= FAILING_PERCENT * total > 0
