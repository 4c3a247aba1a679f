"""One source: its state, figures and configuration, for its page in the console."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Literal

from django.conf import settings

from core import periods
from lookup import source_report, statistics
from lookup.connectors.registry import BUILT_IN, Member
from lookup.models import SourceCheck, SourcePause, SourceResult
from lookup.search import SLOTS, members
from lookup.source_actions import configured
from lookup.statistics import BOUNDS_MS, SourceUsage
from lookup.vendors.preset import Preset

State = Literal["paused", "breaker", "failing", "healthy", "unused"]
MAX_FAILURES = 20


@dataclass(frozen=True, slots=True)
class SlotDetails:
    """The source in one slot. `position`: from 1, of `of`; None if the slot is not configured with it."""

    name: str
    setting: str
    position: int | None
    of: int
    usage: SourceUsage
    price: Decimal | None

    @property
    def cost(self) -> Decimal | None:
        return None if self.price is None else self.price * self.usage.calls


@dataclass(frozen=True, slots=True)
class Details:
    """`member`: None if it is no longer configured. `steps`: each hour or day of the period, oldest first. `pauses`:
    of all sources, by name."""

    name: str
    member: Member | None
    state: State
    slots: list[SlotDetails]
    total: SourceUsage
    steps: list[tuple[datetime, SourceUsage]]
    last_failures: list[SourceResult]
    answered_at: datetime | None
    pauses: Mapping[str, SourcePause]
    check: SourceCheck | None
    configuration: list[tuple[str, str]] = field(default_factory=list)

    @property
    def pause(self) -> SourcePause | None:
        return self.pauses.get(self.name)

    @property
    def cost(self) -> Decimal | None:
        """None if a price is missing."""
        costs = [slot.cost for slot in self.slots]
        return None if None in costs else sum(filter(None, costs), Decimal(0))


def details(name: str, *, since: datetime, now: datetime, by_hour: bool) -> Details | None:
    """None for a name that is not configured, not paused, and has no figures since `since`. Four statements."""
    member = configured().get(name)
    slots = {slot: SourceUsage(slot, name) for slot in SLOTS if name in {each.name for each in members(slot)}}
    total, this_hour, both_hours = (SourceUsage("", name) for _ in range(3))
    steps = {at: SourceUsage("", name) for at in _steps(since, now, by_hour=by_hour)}
    hour_before = periods.hour(now) - source_report.HOUR
    days_before = None if by_hour else hour_before
    for hour, slot, outcome, sums in statistics.of_source(name, since, days_before=days_before):
        step = hour if by_hour else periods.midnight(hour)
        if slot not in slots:
            slots[slot] = SourceUsage(slot, name)
        if step not in steps:  # a process with a fast clock may have counted in an hour that has not begun yet
            steps[step] = SourceUsage("", name)
        counted = [slots[slot], total, steps[step]]
        counted += [both_hours] * (hour >= hour_before) + [this_hour] * (hour >= periods.hour(now))
        for usage in counted:
            usage.add(outcome, sums)
    recent = source_report.enough(this_hour, both_hours)
    answered, failures = statistics.last_results(since)
    pauses = SourcePause.objects.in_bulk()
    own = [failure for failure in failures if failure.connector == name]
    if member is None and name not in pauses and not slots and not own:
        return None
    return Details(
        name=name,
        member=member,
        state=_state(member, name in pauses, own, answered.get(name), recent, total, now),
        slots=[_slot(slot, slots[slot], name, member) for slot in SLOTS if slot in slots],
        total=total,
        steps=sorted(steps.items()),
        last_failures=own[:MAX_FAILURES],
        answered_at=answered.get(name),
        pauses=pauses,
        check=SourceCheck.objects.filter(pk=name).first(),
        configuration=_configuration(member) if member else [],
    )


def _steps(since: datetime, now: datetime, *, by_hour: bool) -> list[datetime]:
    step = timedelta(hours=1) if by_hour else timedelta(days=1)
    return [since + step * index for index in range((now - since) // step + 1)]


def _state(
    member: Member | None,
    paused: bool,
    failures: list[SourceResult],
    answered_at: datetime | None,
    recent: SourceUsage,
    total: SourceUsage,
    now: datetime,
) -> State:
    if paused:
        return "paused"
    if member is None:
        return "unused"
    if member.guard and member.guard.breaker.is_open:
        return "breaker"
    if failures and source_report.failures(failures[0], answered_at, recent, now).is_failing:
        return "failing"
    return "healthy" if total.calls + total.cached or answered_at else "unused"


def _slot(slot: str, usage: SourceUsage, name: str, member: Member | None) -> SlotDetails:
    setting, _ = SLOTS[slot]
    names = [each.name for each in members(slot)]
    prices: dict[str, Decimal] = getattr(settings, f"{setting}_PRICE")
    remote = member.connector.remote if member else name not in BUILT_IN
    return SlotDetails(
        name=slot,
        setting=setting,
        position=names.index(name) + 1 if name in names else None,
        of=len(names),
        usage=usage,
        price=prices.get(name, prices.get("*")) if remote else Decimal(0),
    )


def _configuration(member: Member) -> list[tuple[str, str]]:
    """Names and values, without keys and addresses."""
    connector = member.connector
    loaded = getattr(connector, "preset", None)
    kind = "built in" if member.name in BUILT_IN else "connector class"
    if isinstance(loaded, Preset):
        kind = f"preset ({loaded.title})"
    rows = [("Kind", kind), ("Fields", ", ".join(sorted(connector.fields)))]
    if not connector.remote:
        return [*rows, ("Called", f"in the request's thread, within {settings.SEARCH_DEADLINE_S:g} s")]
    wait_s = min(connector.max_wait_s or settings.SEARCH_DEADLINE_S, settings.SEARCH_DEADLINE_S)
    rows += [
        ("A search waits", f"at most {wait_s:g} s"),
        ("A call ends", f"after {settings.CALL_LIFETIME_S:g} s at most"),
        ("Concurrency limit", f"{connector.concurrency:,} calls per process"),
        ("Cached", f"found {_duration(connector.hit_ttl_s)}, not found {_duration(connector.miss_ttl_s)}"),
        ("Numbers", _coverage(loaded) if isinstance(loaded, Preset) else "as its class decides"),
    ]
    return rows


def _coverage(loaded: Preset) -> str:
    limits = [f"country code {', '.join(f'+{code}' for code in loaded.coverage.country_codes)}"]
    limits = limits if loaded.coverage.country_codes else []
    if loaded.coverage.regions:
        limits.append(f"numbers of {', '.join(loaded.coverage.regions)}")
    return "; ".join(limits) or "all that its request can contain"


def _duration(seconds: float) -> str:
    if not seconds:
        return "not cached"
    for unit, size in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if seconds >= 2 * size and seconds % size == 0:
            return f"for {seconds / size:,.0f} {unit}"
    return f"for {seconds:,.0f} s"


# --- Charts -------------------------------------------------------------------------------------------------------

#: Title, the name of its colour in console.css, and its colour there.
_OUTCOMES = (
    ("found", "found", "#1f6fb2"),
    ("not found", "not-found", "#8a93a0"),
    ("cached", "cached", "#45a5d9"),
    ("failed", "failed", "#d03a20"),
    ("failed without a call", "not-called", "#c58a00"),
)
_X = {"grid": {"display": False}, "ticks": {"maxRotation": 0, "autoSkipPadding": 16}}
_COMMON: dict[str, Any] = {
    "animation": False,
    "responsive": True,
    "maintainAspectRatio": False,
    "interaction": {"mode": "index", "intersect": False},
    "plugins": {"legend": {"display": False}},
}
_BARS = {
    **_COMMON,
    "categoryPercentage": 0.9,
    "barPercentage": 0.9,
    "maxBarThickness": 36,
    "scales": {
        "x": {**_X, "stacked": True},
        "y": {"stacked": True, "beginAtZero": True, "suggestedMax": 1, "ticks": {"precision": 0}},
    },
}
_LINES = {**_COMMON, "scales": {"x": _X, "y": {"beginAtZero": True}}}


def charts(steps: Sequence[tuple[datetime, SourceUsage]], *, label: str) -> dict[str, Any]:
    """The context of the two charts. `label`: the strftime format of the steps' labels. Durations beyond the greatest
    bound are drawn at the bound; the table says that they are over it."""
    labels = [f"{at:{label}}" for at, _ in steps]
    counts = {
        "found": [usage.found for _, usage in steps],
        "not found": [usage.not_found for _, usage in steps],
        "cached": [usage.cached for _, usage in steps],
        "failed": [usage.failed_calls for _, usage in steps],
        "failed without a call": [usage.not_called for _, usage in steps],
    }
    bars = [{"label": title, "data": counts[title], "backgroundColor": colour} for title, _, colour in _OUTCOMES]
    lines = [
        _line("median", "#1f6fb2", [usage.median_ms for _, usage in steps]),
        _line("p95", "#c58a00", [usage.p95_ms for _, usage in steps]),
    ]
    return {
        "legend": [(title, css, sum(counts[title])) for title, css, _ in _OUTCOMES],
        "outcomes": {"data": json.dumps({"labels": labels, "datasets": bars}), "options": json.dumps(_BARS)},
        "latency": {"data": json.dumps({"labels": labels, "datasets": lines}), "options": json.dumps(_LINES)},
        "has_counts": any(map(any, counts.values())),
        "has_latency": any(usage.calls for _, usage in steps),
    }


def _line(label: str, colour: str, values: Sequence[float | None]) -> dict[str, Any]:
    drawn = [None if value is None else round(min(value, BOUNDS_MS[-1]), 1) for value in values]
    look = {"borderColor": colour, "backgroundColor": colour, "borderWidth": 2, "pointRadius": 2, "spanGaps": False}
    return {"label": label, "data": drawn, **look}
