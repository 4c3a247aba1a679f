"""One source: its state, figures and configuration, for its page in the console."""

from datetime import datetime
from decimal import Decimal
from typing import Any

from django.conf import settings

from core import periods
from lookup.connectors.registry import BUILT_IN, Member
from lookup.models import SourceCheck, SourcePause
from lookup.search import SLOTS, members
from lookup.vendors.preset import Preset
from monitoring import source_report, source_statistics
from monitoring.source_report import SourceRow
from monitoring.source_statistics import SourceUsage

MAX_FAILURES = 20


def details(name: str, *, since: datetime, now: datetime, by_hour: bool) -> dict[str, Any] | None:
    """What the page shows; None for a name that is not configured, not paused, and has no figures since `since`. Eight
    statements.

    `member`: None if it is no longer configured. `state`: as in source_report, or `unused`. `slots`: the source in each
    slot that has it or had it. `cost`: None if a price is missing. `steps`: each hour or day of the period, oldest
    first.
    """
    now_state = source_report.states(now).get(name)
    member = now_state.member if now_state else None
    pause = SourcePause.objects.filter(pk=name).first()
    usages = {slot: SourceUsage(slot, name) for slot in SLOTS if member in members(slot)}
    total = SourceUsage("", name)
    steps = {at: SourceUsage("", name) for at in periods.steps(since, now, by_hour=by_hour)}
    for at, slot, outcome, sums in source_statistics.of_source(name, since, by_hour=by_hour):
        # A process with a fast clock may have counted in an hour that has not begun yet.
        step = steps.setdefault(at, SourceUsage("", name))
        for usage in (usages.setdefault(slot, SourceUsage(slot, name)), total, step):
            usage.add(outcome, sums)
    answered, failures = source_statistics.last_results(since)
    own = [failure for failure in failures if failure.connector == name]
    if not (member or pause or usages or own):
        return None
    slots = [SourceRow(usages[slot], member if member in members(slot) else None) for slot in SLOTS if slot in usages]
    costs = [slot.cost for slot in slots]
    state = now_state.name if now_state else "paused" if pause else "unused"
    if state == "healthy" and not (total.calls or total.cached or name in answered):
        state = "unused"
    return {
        "name": name,
        "member": member,
        "state": state,
        "pause": pause,
        "slots": slots,
        "cost": None if None in costs else sum(filter(None, costs), Decimal(0)),
        "total": total,
        "steps": sorted(steps.items()),
        "last_failures": own[:MAX_FAILURES],
        "answered_at": answered.get(name),
        "check": SourceCheck.objects.filter(pk=name).first(),
        "configuration": _configuration(member) if member else [],
    }


def _configuration(member: Member) -> list[tuple[str, str]]:
    """Names and values, without keys and addresses."""
    connector = member.connector
    loaded = getattr(connector, "preset", None)
    kind = "built in" if member.name in BUILT_IN else "connector class"
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
        limits.append(f"numbers of {', '.join(loaded.coverage.regions)}")
    return "; ".join(limits) or "all that its request can contain"
