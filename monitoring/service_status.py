"""Whether the service works now, in one sentence, and its requests of the last hour by minute."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db import OperationalError
from django.utils.module_loading import import_string

from accounts import request_statistics
from accounts.request_statistics import DEGRADED, NEW_ANSWERS, OUTCOMES, REFUSED, SEARCHES
from core import periods
from monitoring import source_report
from monitoring.hooks import OUTCOMES_BY_MINUTE
from monitoring.source_report import State

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
MINUTES = 60
#: The sentence is about the last minutes, including the current one.
RECENT = 10
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
    def sum(cls, found: Iterable["Requests"]) -> "Requests":
        return cls(*map(sum, zip(*map(astuple, found), strict=True)))


def _requests(counts: Counter[str]) -> Requests:
    answered, refused, new_answers, degraded = (
        sum(counts[each] for each in outcomes) for outcomes in (SEARCHES, REFUSED, NEW_ANSWERS, DEGRADED)
    )
    return Requests(answered, refused, counts["failed"], new_answers, degraded)


@dataclass(frozen=True, slots=True)
class Status:
    """`name`: `working`, `idle`, `impaired` or `failing`. `parts`: of its sentence, each with the source that it names,
    or with an empty text. `minutes`: each of the last MINUTES, oldest first; None if nothing knows them, or the query
    timed out."""

    name: str
    parts: list[tuple[str, str]]
    now: datetime
    since: datetime
    minutes: dict[datetime, Requests] | None
    is_timed_out: bool


def status(now: datetime, states: Mapping[str, State]) -> Status:
    """`states`: those of the sources. Two statements. Figures are up to 2 s old (core.write_buffer)."""
    minutes, is_timed_out = None, False
    try:
        minutes = by_minute(now)
    except OperationalError:
        is_timed_out = True
    if minutes is None:
        since = periods.hour(now) - HOUR
        recent = _requests(sum(map(Counter, request_statistics.by_step(since).values()), Counter[str]()))
    else:
        since = list(minutes)[-RECENT]
        recent = Requests.sum(requests for at, requests in minutes.items() if at >= since)
    name, state, figures = _describe(recent, now - since)
    if source_report.paused_slots(states) and name in ("working", "idle"):
        name, state = "impaired", state.replace("Working", "Working partly")
    parts, separator = [(state, "")], ", but " if name == "working" else "; "
    for before, source, after in (problems := _problems(now, states)):
        parts += [(f"{separator}{before}", ""), (source, source), (after, "")]
        separator = "; "
    if figures:
        parts.append((f". {figures[0].upper()}{figures[1:]}." if problems else f": {figures}", ""))
    name = "impaired" if problems and name != "failing" else name
    return Status(name, parts, now, since, minutes, is_timed_out)


def by_minute(now: datetime) -> dict[datetime, Requests] | None:
    """For each of the last MINUTES; None if nothing knows them. Raises OperationalError if the query times out."""
    last = now.replace(second=0, microsecond=0)
    steps = [last - MINUTE * back for back in reversed(range(MINUTES))]
    for path in OUTCOMES_BY_MINUTE:
        if (found := import_string(path)(steps[0], OUTCOMES.keys() - {"test"})) is not None:
            counts = {at: Counter[str]() for at in steps}
            for at, outcome, count in found:
                # A process with a fast clock may have logged in a minute that has not begun yet.
                counts[min(at, last)][outcome] += count
            return {at: _requests(each) for at, each in counts.items()}
    return None


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
