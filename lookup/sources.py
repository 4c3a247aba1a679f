"""What each source did, in which state it is and what it cost: for the console."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from django.conf import settings

from accounts import periods
from lookup import usage
from lookup.connectors.chain import OPERATOR_RULES, Member
from lookup.connectors.registry import BUILT_IN
from lookup.search import SLOTS, members
from lookup.usage import BreakerUsage, Failure, HourOfFailures, SourceUsage

#: How long after a failure a source may be called failing.
RECENT = timedelta(minutes=5)
#: With answers in between it is failing if so many of a hundred have failed this hour.
FAILING_PERCENT = 10
#: At most so many are listed.
MAX_FAILURES = 100


@dataclass(frozen=True, slots=True)
class Source:
    """One connector's in one slot, or the operator rules'. `member`: None when the slot is not bound to it. `price`: of
    one call, in CURRENCY; None when none is set. `breaker`: over all processes."""

    usage: SourceUsage
    member: Member | None
    remote: bool
    price: Decimal | None
    breaker: BreakerUsage

    @property
    def configured(self) -> bool:
        return self.member is not None or self.usage.connector == OPERATOR_RULES

    @property
    def cost(self) -> Decimal | None:
        return None if self.price is None else self.price * self.usage.calls

    @property
    def open_here(self) -> bool | None:
        """Whether this process leaves it alone; None where it has no breaker."""
        return self.member.guard.breaker.is_open if self.member and self.member.guard else None


@dataclass(frozen=True, slots=True)
class Report:
    sources: list[Source]
    currency: str

    @property
    def cost(self) -> Decimal:
        """Of all calls that have a price."""
        return sum((one.cost for one in self.sources if one.cost is not None), Decimal(0))

    @property
    def without_price(self) -> int:
        """How many calls have none."""
        return sum(one.usage.calls for one in self.sources if one.price is None)


def report(since: datetime) -> Report:
    """Of the hours from `since` on, by slot: the operator's rules, if they supplied a field; what it is bound to in the
    bound order, asked or not; and then what was asked and is no longer bound. One statement."""
    counted, events = usage.summary(since)
    used = {(one.slot, one.connector): one for one in counted}
    breakers = {one.connector: one for one in events}
    sources = []
    for slot, (setting, _) in SLOTS.items():
        bound = {member.name: member for member in members(slot)}
        prices: dict[str, Decimal] = getattr(settings, f"{setting}_PRICE")
        others = [name for of, name in used if of == slot and name not in bound and name != OPERATOR_RULES]
        rules = [OPERATOR_RULES] if (slot, OPERATOR_RULES) in used else []
        for name in [*rules, *bound, *others]:
            member = bound.get(name)
            # What is no longer bound has left the process, for all that is known, unless it is built in.
            remote = member.connector.remote if member else name not in (*BUILT_IN, OPERATOR_RULES)
            source = Source(
                usage=used.get((slot, name)) or SourceUsage(slot, name),
                member=member,
                remote=remote,
                price=prices.get(name, prices.get("*")) if remote else Decimal(0),
                breaker=breakers.get(name) or BreakerUsage(name),
            )
            sources.append(source)
    return Report(sources, settings.CURRENCY)


@dataclass(frozen=True, slots=True)
class Failures:
    """`last`: each source's last failure for each reason. `by_hour`: how many. Both newest first, MAX_FAILURES at
    most."""

    last: list[Failure]
    by_hour: list[HourOfFailures]


def failures(since: datetime) -> Failures:
    """Of all sources from `since` on. Two statements."""
    _, last = usage.results(since)
    return Failures(last[:MAX_FAILURES], usage.failures_by_hour(since, MAX_FAILURES))


@dataclass(frozen=True, slots=True)
class Failing:
    """A configured source whose recent calls fail, over all processes. `failed` of `total` this hour."""

    last: Failure
    failed: int
    total: int


def failing(now: datetime) -> list[Failing]:
    """The configured sources that failed within RECENT and have not answered since, or that failed FAILING_PERCENT of
    this hour's calls. As the statistics have it, up to recorder.FLUSH_S behind. Two statements."""
    answered, recent = usage.results(now - RECENT)
    counted, _ = usage.summary(periods.hour(now))
    last = {failure.connector: failure for failure in reversed(recent)}
    found = []
    for name in dict.fromkeys(member.name for slot in SLOTS for member in members(slot)):
        if name not in last:
            continue
        used = [one for one in counted if one.connector == name]
        failed = sum(one.failed for one in used)
        total = failed + sum(one.found + one.not_found for one in used)
        answered_since = name in answered and answered[name] > last[name].at
        if not answered_since or 100 * failed >= FAILING_PERCENT * total > 0:
            found.append(Failing(last[name], failed, total))
    return found
