"""What each source did, in which state it is and what it cost: for the console."""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from django.conf import settings

from lookup import usage
from lookup.connectors.chain import Member
from lookup.connectors.registry import BUILT_IN
from lookup.search import SLOTS, members
from lookup.usage import BreakerUsage, SourceUsage


@dataclass(frozen=True, slots=True)
class Source:
    """One connector's in one slot. `member`: None when the slot is no longer bound to it. `price`: of one call, in
    CURRENCY; None when none is set. `breaker`: over all processes."""

    usage: SourceUsage
    member: Member | None
    remote: bool
    price: Decimal | None
    breaker: BreakerUsage

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
    """Of the hours from `since` on: by slot, what it is bound to in the bound order, asked or not, and then what was
    asked and is no longer bound. One statement."""
    counted, events = usage.summary(since)
    used = {(one.slot, one.connector): one for one in counted}
    breakers = {one.connector: one for one in events}
    sources = []
    for slot, (setting, _) in SLOTS.items():
        bound = {member.name: member for member in members(slot)}
        prices: dict[str, Decimal] = getattr(settings, f"{setting}_PRICE")
        for name in [*bound, *(name for of, name in used if of == slot and name not in bound)]:
            member = bound.get(name)
            # What is no longer bound has left the process, for all that is known, unless it is built in.
            remote = member.connector.remote if member else name not in BUILT_IN
            source = Source(
                usage=used.get((slot, name)) or SourceUsage(slot, name),
                member=member,
                remote=remote,
                price=prices.get(name, prices.get("*")) if remote else Decimal(0),
                breaker=breakers.get(name) or BreakerUsage(name),
            )
            sources.append(source)
    return Report(sources, settings.CURRENCY)
