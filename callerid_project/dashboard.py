"""The console's first page, in one glance: is the service well, who is about to run out, which source fails, what does
it cost. As many statements for much as for nothing, and none of them reads the ledger's searches."""

from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from django.db import OperationalError
from django.http import HttpRequest
from django.utils import timezone

from accounts import activity, periods
from accounts.activity import CHARGED, DEGRADED, FOUND, NEW_ANSWERS, REFUSED, SEARCHES
from accounts.admin.charts import requests_chart
from accounts.models import CreditEntry
from accounts.periods import Period
from callerid_project import health
from lookup import sources

RUNNING_OUT_DAYS = 7
MOST_RUNNING_OUT = 10

_Hours = dict[datetime, dict[str, int]]


def context(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """Unfold's DASHBOARD_CALLBACK: `context` and the blocks that this operator may see."""
    now, period = timezone.now(), periods.asked_for(request.GET)
    since = period.since(now)
    may = request.user.has_perm
    blocks: dict[str, Any] = {}
    if may("lookup.view_usage") or may("accounts.view_creditentry"):
        hours = activity.by_hour(since)
    if may("lookup.view_usage"):
        blocks["searches"] = _searches(hours)
        blocks["chart"] = _chart(hours, period, now, by_hour=_by_hour(request, period))
        blocks["report"] = sources.report(since)
    if may("accounts.view_creditentry"):
        blocks["credits"] = _credits(hours, since)
    if may("accounts.view_apitoken"):
        blocks["tokens"] = _tokens(now)
    if blocks:
        blocks["findings"] = health.findings(request)
    frame = {"now": now, "periods": periods.ALL, "period": period, "since": since}
    return {**context, **frame, **blocks, "nothing_to_see": not blocks}


def _by_hour(request: HttpRequest, period: Period) -> bool:
    return period is periods.DAY or (period is periods.WEEK and request.GET.get("by") == "hour")


def _sum(counts: dict[str, int], outcomes: Iterable[str]) -> int:
    return sum(counts.get(outcome, 0) for outcome in outcomes)


def _total(hours: _Hours) -> Counter[str]:
    total: Counter[str] = Counter()
    for counts in hours.values():
        total.update(counts)
    return total


def _searches(hours: _Hours) -> dict[str, Any]:
    """`found_percent`, `degraded_percent`: of what the sources were asked for; None when that was nothing."""
    total = _total(hours)
    found, asked, degraded = (_sum(total, outcomes) for outcomes in (FOUND, NEW_ANSWERS, DEGRADED))
    return {
        "answered": _sum(total, SEARCHES),
        "found_percent": f"{100 * found / asked:.0f}" if asked else None,
        "degraded": degraded,
        "degraded_percent": f"{100 * degraded / asked:.0f}" if asked else None,
        "refused": _sum(total, REFUSED),
        "failed": total["failed"],
    }


def _credits(hours: _Hours, since: datetime) -> dict[str, Any]:
    """`spent` is from the statistics, the rest from what operators booked."""
    booked = activity.booked(since)
    return {
        "issued": booked.get(CreditEntry.Kind.ISSUE, 0) + booked.get(CreditEntry.Kind.TOP_UP, 0),
        "refunded": booked.get(CreditEntry.Kind.REFUND, 0),
        "adjusted": booked.get(CreditEntry.Kind.ADJUSTMENT, 0),
        "spent": _sum(_total(hours), CHARGED),
    }


def _tokens(now: datetime) -> dict[str, Any]:
    """`outstanding` (as activity tells it) and `running_out`: None where the database has not told in time, for both
    grow with the tokens, and the rest of the page is the more wanted then."""
    told: dict[str, Any] = {"outstanding": None, "running_out": None}
    with suppress(OperationalError):
        told["outstanding"] = activity.outstanding(now)
    with suppress(OperationalError):
        running_out = activity.running_out(now, within_days=RUNNING_OUT_DAYS)
        told["running_out"] = running_out[:MOST_RUNNING_OUT]
        told["more"] = max(0, len(running_out) - MOST_RUNNING_OUT)
    return told


def _chart(hours: _Hours, period: Period, now: datetime, *, by_hour: bool) -> dict[str, Any]:
    """Of each hour or day of the period, those without a request too."""
    step = timedelta(hours=1) if by_hour else timedelta(days=1)
    at, steps = period.since(now), dict[datetime, Counter[str]]()
    while at <= now:
        steps[at] = Counter()
        at += step
    for hour, counts in hours.items():
        begins = hour if by_hour else periods.midnight(hour)
        # A process whose clock is ahead has counted in an hour that has not come.
        steps.setdefault(begins, Counter()).update(counts)
    label = "%H:%M" if period is periods.DAY else "%b %d, %H:%M" if by_hour else "%b %d"
    chart = requests_chart(list(steps.items()), label=label, by="hour" if by_hour else "day")
    return {**chart, "may_choose": period is periods.WEEK}
