"""Calls, cost and configuration of each source, for the console, and its state, for the console, health checks and
alerts."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Literal

from django.conf import settings
from django.utils.module_loading import import_string

from core import periods
from core.periods import Period
from lookup.answers import ACCOUNT_REASONS, REFUSALS
from lookup.connectors.registry import BUILT_IN, BoundSource
from lookup.models import SourceCheck, SourcePause
from lookup.search import PSEUDO_SOURCES, RULES_SOURCE, SLOTS, bound_sources
from lookup.source_actions import call_price, configured
from lookup.vendors.preset import Preset
from monitoring import hooks, source_statistics
from monitoring.models import SourceResult
from monitoring.source_statistics import SourceUsage

HOUR, LOOK_BACK = timedelta(hours=1), timedelta(days=1)
#: A source is called failing for this long after a failure.
RECENT = timedelta(minutes=5)
#: A source that also answers is failing from this percentage of failures.
FAILING_PERCENT = 10
#: A source that is called rarely is failing from so many failures without an answer.
MIN_FAILURES = 3
#: Failures on the page of a source.
MAX_FAILURES = 20


def no_cost() -> Decimal:
    """0 with as many decimals as the price with the most, so that all costs have equally many."""
    prices = (*settings.SOURCE_A_PRICE.values(), *settings.SOURCE_B_PRICE.values())
    return sum((0 * price for price in prices), Decimal("0.00"))


@dataclass(frozen=True, slots=True)
class SourceRow:
    """A connector in one slot, or the operator rules. `bound`: None if the slot is not configured with it. `pause`:
    None unless an operator has paused it. `state`: None if it was not asked for."""

    slot: str
    name: str
    usage: SourceUsage
    bound: BoundSource | None
    pause: SourcePause | None = None
    state: "State | None" = None

    @property
    def has_page(self) -> bool:
        """Whether the console has a page about it."""
        return self.name not in PSEUDO_SOURCES

    @property
    def state_name(self) -> str:
        return _state_name(self.state, self.pause, self.usage)

    @property
    def setting(self) -> str:
        """The name of the setting that configures its slot."""
        return SLOTS[self.slot][0]

    @property
    def place(self) -> str:
        """When its slot calls it, as `2 of 3`; empty if the slot is not configured with it."""
        bound = bound_sources(self.slot)
        return f"{bound.index(self.bound) + 1} of {len(bound)}" if self.bound else ""

    @property
    def remote(self) -> bool:
        """A source that is no longer configured is taken to be remote unless it is built in."""
        return self.bound.connector.remote if self.bound else self.name not in (*BUILT_IN, *PSEUDO_SOURCES)

    @property
    def price(self) -> Decimal | None:
        """Of one call, in CURRENCY; None if none is set."""
        return call_price(self.slot, self.name, remote=self.remote)

    @property
    def cost(self) -> Decimal | None:
        return None if self.price is None else self.price * self.usage.billable + no_cost()


@dataclass(frozen=True, slots=True)
class Report:
    sources: list[SourceRow]
    currency: str

    @property
    def cost(self) -> Decimal:
        """Cost of all calls that have a price."""
        return sum((source.cost for source in self.sources if source.cost is not None), no_cost())

    @property
    def price_settings(self) -> list[str]:
        """The settings that lack the price of calls."""
        missing = [each for each in self.sources if each.price is None and each.usage.billable]
        return list(dict.fromkeys(f"{each.setting}_PRICE" for each in missing))

    @property
    def has_rules(self) -> bool:
        return any(source.name == RULES_SOURCE for source in self.sources)

    @property
    def uncalled_reasons(self) -> list[str]:
        """Of the failures without a call."""
        return sorted({*self._reasons} & source_statistics.NOT_CALLED)

    @property
    def refusal_reasons(self) -> list[str]:
        return sorted({*self._reasons} & {*REFUSALS})

    @property
    def _reasons(self) -> list[str]:
        return [reason for source in self.sources for reason in source.usage.failures]

    @property
    def calls_without_price(self) -> int:
        return sum(source.usage.billable for source in self.sources if source.price is None)


def report(since: datetime, until: datetime | None = None, states: Mapping[str, "State"] | None = None) -> Report:
    """The sources of each slot in the hours from `since` on, and before `until`, with their `states`. Two statements.

    In this order: the operator rules, if one supplied a field; the configured sources, called or not, in the order in
    which they are called; sources that were called and are no longer configured.
    """
    usages = source_statistics.usages(since, "slot", "connector", until=until)
    paused = SourcePause.objects.in_bulk()
    sources = []
    for slot in SLOTS:
        configured = {bound.name: bound for bound in bound_sources(slot)}
        used = [name for used_in, name in usages if used_in == slot]
        rules = [name for name in used if name == RULES_SOURCE]
        for name in dict.fromkeys([*rules, *configured, *used]):
            usage = usages.get((slot, name), SourceUsage())
            state = states.get(name) if states else None
            sources.append(SourceRow(slot, name, usage, configured.get(name), paused.get(name), state))
    return Report(sources, settings.CURRENCY)


@dataclass(frozen=True, slots=True)
class State:
    """A configured source now. `usage`: in the current hour or, while that has fewer than ALERT_MIN_COUNT lookups, also
    in the hour before; in all slots and processes. `last_failure`: see `_last_failure`. `answered_at`: to a search or a
    check. `refused_at`: when the circuit breaker of a process last kept a search from calling it. `check`: the last one
    from the console. `pause`: None unless an operator has paused it. `resumed_at`: None unless an operator has resumed
    it and no call has ended since."""

    bound: BoundSource
    usage: SourceUsage
    last_failure: SourceResult | None
    answered_at: datetime | None
    refused_at: datetime | None
    check: SourceCheck | None
    pause: SourcePause | None
    resumed_at: datetime | None
    now: datetime

    @property
    def name(self) -> Literal["paused", "failing", "check_failed", "resumed", "healthy"]:
        if self.pause:
            return "paused"
        if self.is_failing:
            return "failing"
        if self.check_failure:
            return "check_failed"
        return "resumed" if self.resumed_at else "healthy"

    @property
    def check_failure(self) -> str:
        """When and why the last check failed; empty if it did not, or if the source has answered since."""
        if self.check is None or self.check.result.get("ok", True):
            return ""
        if self.answered_at and self.answered_at > self.check.started_at:
            return ""
        outcome, fix = self.check.result["outcome"], self.check.result["fix"].rstrip(".")
        return f"at {periods.shown(self.check.started_at)}: {outcome}{f' ({fix})' if fix else ''}"

    @property
    def failed_percent(self) -> float:
        """Of its lookups, without those while it was paused; 0 if they are fewer than ALERT_MIN_COUNT."""
        total = self.usage.unpaused
        return 100 * self.usage.failed_unpaused / total if total >= settings.ALERT_MIN_COUNT else 0.0

    @property
    def has_just_failed(self) -> bool:
        return self.last_failure is not None and self.last_failure.at > self.now - RECENT

    @property
    def is_refused(self) -> bool:
        """Whether circuit breakers keep searches from calling it, as far as the last searches tell."""
        at = self.refused_at
        return at is not None and at > self.now - RECENT and (self.answered_at is None or self.answered_at <= at)

    @property
    def is_unanswered(self) -> bool:
        """It has failed, and has not answered since."""
        return self.last_failure is not None and (self.answered_at is None or self.answered_at <= self.last_failure.at)

    @property
    def is_failing(self) -> bool:
        """The vendor refused its key or its account, and it has not answered since; or it failed within RECENT, and
        has not answered since or failed FAILING_PERCENT of its lookups; or, if it is called rarely, it failed all of at
        least MIN_FAILURES; or circuit breakers are open. A paused source is not failing."""
        if self.pause or self.last_failure is None:
            return False
        if self.is_refused:
            return True
        if self.is_unanswered:
            all_failed = self.usage.failed_unpaused == self.usage.unpaused >= MIN_FAILURES
            return self.last_failure.reason in ACCOUNT_REASONS or self.has_just_failed or all_failed
        return self.has_just_failed and self.failed_percent >= FAILING_PERCENT


def states(now: datetime) -> dict[str, State]:
    """The state of each configured source, by name. Statistics are up to 2 s old (core.write_buffer). Five
    statements."""
    hour = periods.hour(now)
    this_hour, both_hours = (source_statistics.usages(since, "connector") for since in (hour, hour - HOUR))
    answered, refused, resumed, failures = source_statistics.last_results()
    failed = {each.connector: each.at for each in reversed(failures)}
    paused, checks = SourcePause.objects.in_bulk(), SourceCheck.objects.in_bulk()
    found = {}
    for name, bound in configured().items():
        usage = this_hour.get((name,), SourceUsage())
        is_enough = usage.unpaused >= settings.ALERT_MIN_COUNT
        answered_at = max(filter(None, (answered.get(name), _succeeded_at(checks.get(name)))), default=None)
        resumed_at, called = resumed.get(name), filter(None, (answered_at, failed.get(name)))
        found[name] = State(
            bound=bound,
            usage=usage if is_enough else both_hours.get((name,), SourceUsage()),
            last_failure=_last_failure([each for each in failures if each.connector == name], answered_at, now),
            answered_at=answered_at,
            refused_at=refused.get(name),
            check=checks.get(name),
            pause=paused.get(name),
            resumed_at=None if resumed_at and any(at > resumed_at for at in called) else resumed_at,
            now=now,
        )
    return found


def slot_name(slot: str) -> str:
    """`Source A`."""
    return slot.replace("_", " ").title()


def paused_slots(states: Mapping[str, State]) -> list[str]:
    """The names of the slots of which every source is paused."""
    return [slot_name(slot) for slot in SLOTS if all(states[bound.name].pause for bound in bound_sources(slot))]


def _last_failure(failures: list[SourceResult], answered_at: datetime | None, now: datetime) -> SourceResult | None:
    """The last one of ACCOUNT_REASONS if the source has not answered since, for that lasts whatever fails later;
    otherwise the last one within LOOK_BACK, if there is one. `failures`: its own, newest first."""
    for failure in failures:
        if failure.reason in ACCOUNT_REASONS and (answered_at is None or answered_at <= failure.at):
            return failure
    return next((failure for failure in failures if failure.at > now - LOOK_BACK), None)


def _succeeded_at(check: SourceCheck | None) -> datetime | None:
    """When the source answered this check, if it did."""
    return check.finished_at if check and check.result.get("ok") and check.result["ms"] is not None else None


def _state_name(state: State | None, pause: SourcePause | None, usage: SourceUsage) -> str:
    """That of the State; `unused` if it is not configured, or has no figures that could tell."""
    name = state.name if state else "paused" if pause else "unused"
    return "unused" if name == "healthy" and not (usage.calls or usage.cached) else name


def details(name: str, period: Period, now: datetime) -> dict[str, Any] | None:
    """What the page of a source shows; None for a name that is not configured, not paused, and has no figures in
    `period`. Ten statements.

    `bound`: None if it is no longer configured. `state_name`: see `_state_name`. `slots`: the source in each slot that
    has it or had it. `cost`: None if a price is missing. `steps`: each hour or day of the period, oldest first.
    """
    state, since = states(now).get(name), period.since(now)
    bound = state.bound if state else None
    pause = state.pause if state else SourcePause.objects.filter(pk=name).first()
    until = period.until(now)
    total = source_statistics.usages(since, until=until, connector=name).get((), SourceUsage())
    by_step = source_statistics.usages(since, period.step, until=until, connector=name)
    # A process with a fast clock may have counted in an hour that has not begun yet.
    steps = dict.fromkeys(period.steps(now), SourceUsage())
    steps |= {at: usage for (at,), usage in by_step.items()}
    own = [each for each in source_statistics.last_results(since).failures if each.connector == name]
    slots = [row for row in report(since, until).sources if row.name == name]
    if not (pause or slots or own):
        return None
    costs = [slot.cost for slot in slots]
    checked = state.check.result if state and state.check else {}
    return {
        "name": name,
        "bound": bound,
        "state_name": _state_name(state, pause, total),
        "state": state,
        "pause": pause,
        "slots": slots,
        "cost": None if None in costs else sum(filter(None, costs), no_cost()),
        "total": total,
        "steps": sorted(steps.items()),
        "last_failures": own[:MAX_FAILURES],
        "wrong_samples": [each for each in checked.get("samples", ()) if each["problem"]],
        "configuration": _configuration(bound) if bound else [],
    }


def _configuration(bound: BoundSource) -> list[tuple[str, str]]:
    """Names and values, without keys and addresses."""
    connector = bound.connector
    loaded = getattr(connector, "preset", None)
    kind = "built in" if bound.name in BUILT_IN else "connector class"
    if isinstance(loaded, Preset):
        kind = f"preset ({loaded.title})"
    rows = [("Kind", kind), ("Fields", ", ".join(sorted(connector.fields)))]
    if not connector.remote:
        return [*rows, ("Called", f"by the search itself, within {settings.SEARCH_DEADLINE_S:g} s")]
    wait_s = min(connector.max_wait_s or settings.SEARCH_DEADLINE_S, settings.SEARCH_DEADLINE_S)
    found, not_found = map(periods.duration, (connector.hit_ttl_s, connector.miss_ttl_s))
    rows += [
        ("A search waits", f"at most {wait_s:g} s"),
        ("A call ends", f"after {settings.CALL_LIFETIME_S:g} s at most"),
        ("Concurrency limit", f"{connector.concurrency:,} calls per process"),
        ("Cached", f"found {found}, not found {not_found}"),
        ("Numbers", _coverage(loaded) if isinstance(loaded, Preset) else "as its class decides"),
    ]
    return rows


def _coverage(loaded: Preset) -> str:
    limits = [f"country code {', '.join(f'+{code}' for code in loaded.coverage.country_codes)}"]
    limits = limits if loaded.coverage.country_codes else []
    if loaded.coverage.regions:
        limits.append(f"those of {', '.join(loaded.coverage.regions)}")
    return "; ".join(limits) or "all that its request can contain"


def failing_since(now: datetime) -> dict[str, datetime]:
    """Since when sources have been failing, of those of which an add-on knows it."""
    return {name: since for path in hooks.FAILING_SINCE for name, since in import_string(path)(now).items()}
