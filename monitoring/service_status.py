"""Whether the service works now, in one sentence."""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db import OperationalError
from django.utils.module_loading import import_string

from accounts import request_statistics
from accounts.request_statistics import DEGRADED, NEW_ANSWERS, REFUSED, SEARCHES
from core import periods
from monitoring import source_report
from monitoring.hooks import RECENT_REQUESTS
from monitoring.source_report import State

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
#: Fewer failures, or degraded answers, are not a problem of the service.
MIN_FAILURES = 3


@dataclass(frozen=True, slots=True)
class Requests:
    """`refused`: by the service's rules, such as without credits. `new_answers` and `degraded`: of the answered ones,
    those that were not replayed, and those of them that lack one slot, which failed. Requests with test tokens are not
    counted."""

    answered: int = 0
    refused: int = 0
    failed: int = 0
    new_answers: int = 0
    degraded: int = 0

    @property
    def total(self) -> int:
        return self.answered + self.refused + self.failed

    @property
    def answered_percent(self) -> float | None:
        """Of those answered or failed, rounded down to a tenth; None if there were none."""
        searches = self.answered + self.failed
        return math.floor(1000 * self.answered / searches) / 10 if searches else None

    @property
    def degraded_percent(self) -> float:
        """Of the new answers; 0 unless it is above the limit of the alert about them."""
        percent = 100 * self.degraded / self.new_answers if self.degraded >= MIN_FAILURES else 0.0
        return percent if percent > settings.ALERT_DEGRADED_PERCENT else 0.0

    @classmethod
    def of(cls, counts: Counter[str]) -> "Requests":
        """`counts`: by outcome (request_statistics.OUTCOMES)."""
        answered, refused, new_answers, degraded = (
            sum(counts[each] for each in outcomes) for outcomes in (SEARCHES, REFUSED, NEW_ANSWERS, DEGRADED)
        )
        return cls(answered, refused, counts["failed"], new_answers, degraded)


@dataclass(frozen=True, slots=True)
class Recent:
    """The requests since then. `template`: shown beneath the sentence about them; `chart` in it is `chart`."""

    since: datetime
    requests: Requests
    template: str = ""
    chart: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Status:
    """`name`: `working`, `idle`, `impaired` or `failing`. `parts`: of its sentence, each with the source that it names,
    or with an empty text. `is_timed_out`: the query of the last minutes, so `recent` is of hours."""

    name: str
    parts: list[tuple[str, str]]
    now: datetime
    recent: Recent
    is_timed_out: bool


def status(now: datetime, states: Mapping[str, State]) -> Status:
    """`states`: those of the sources. Two statements. Figures are up to 2 s old (core.write_buffer)."""
    recent, is_timed_out = None, False
    try:
        recent = next(filter(None, (import_string(path)(now) for path in RECENT_REQUESTS)), None)
    except OperationalError:
        is_timed_out = True
    if recent is None:
        since = periods.hour(now) - HOUR
        counts = sum(map(Counter, request_statistics.by_step(since).values()), Counter[str]())
        recent = Recent(since, Requests.of(counts))
    name, state, figures = _describe(recent.requests, now - recent.since)
    if source_report.paused_slots(states) and name in ("working", "idle"):
        name, state = "impaired", state.replace("Working", "Working partly")
    parts, separator = [(state, "")], ", but " if name == "working" else "; "
    for before, source, after in (problems := _problems(now, states)):
        parts += [(f"{separator}{before}", ""), (source, source), (after, "")]
        separator = "; "
    if figures:
        parts.append((f". {figures[0].upper()}{figures[1:]}." if problems else f": {figures}", ""))
    name = "impaired" if problems and name != "failing" else name
    return Status(name, parts, now, recent, is_timed_out)


def _describe(recent: Requests, elapsed: timedelta) -> tuple[str, str, str]:
    """The name of the status without regard to sources, what it says, and figures, if there are any."""
    minutes = max(1.0, elapsed / MINUTE)
    if not recent.total:
        return "idle", f"No requests in the last {math.ceil(minutes)} minutes", ""
    rate = recent.total / minutes
    number = f"{rate:,.0f}" if rate >= 1 else "less than 1"
    figures = f"{number} request{'s' if rate >= 1.5 else ''} a minute in the last {math.ceil(minutes)} minutes"
    percent = recent.answered_percent
    if percent is None:
        return "working", "Working", f"{figures}, all refused"
    figures += f", {percent:g}\u00a0% answered"
    if recent.degraded_percent:
        figures += f", {recent.degraded_percent:.0f}\u00a0% degraded"
    if recent.refused:
        figures += f", {recent.refused:,} refused"
    few_failed = recent.failed < MIN_FAILURES or 100 - percent <= settings.ALERT_FAILED_PERCENT
    if few_failed and not recent.degraded_percent:
        return "working", "Working", figures
    return ("impaired", "Working partly", figures) if recent.answered else ("failing", "Not working", figures)


def _problems(now: datetime, states: Mapping[str, State]) -> list[tuple[str, str, str]]:
    """`twilio is failing since 13:05`, for each source, as the text before its name, the name, and the text after it:
    where nothing knows since when, with the time of its last answer."""
    began = source_report.failing_since(now)
    found = [(f"all sources of {slot} are paused", "", "") for slot in source_report.paused_slots(states)]
    for name, state in states.items():
        if state.name == "failing":
            since = f" since {periods.time_of_day(began[name], now)}" if name in began else ""
            if not since and state.answered_at:
                since = f" (last answer at {periods.time_of_day(state.answered_at, now)})"
            found.append(("", name, f" is failing{since}"))
        elif state.name == "check_failed":
            found.append(("the check of ", name, f" failed {state.check_failure}"))
    return found
