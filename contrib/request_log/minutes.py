"""The requests of the last hour by minute, for the dashboard's first block."""

from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import CharField, Count
from django.db.models.functions import Cast, Substr

from accounts.request_statistics import OUTCOMES
from contrib.request_log.models import RequestLogEntry
from monitoring.service_status import Recent, Requests

MINUTES = 60
#: The block's sentence is about the last minutes, including the current one.
RECENT = 10
#: Of the chart, in units of its view box: each minute has a bar.
HEIGHT, STEP, BAR = 60, 10, 8
#: Minutes with failures that are named.
MAX_FAILURES = 5


def recent_requests(now: datetime) -> Recent | None:
    """For monitoring.hooks: None while nothing is logged. One statement. Figures are up to 2 s old (core.write_buffer).

    The log has no requests without a valid token, and not every rate-limited one (log.MAX_RATE_LIMITED)."""
    if not settings.REQUEST_LOG_DAYS:
        return None
    minutes = by_minute(now)
    requests = Requests.of(sum(list(minutes.values())[-RECENT:], Counter[str]()))
    return Recent(list(minutes)[-RECENT], requests, "admin/request_log/minutes.html", _chart(minutes))


def by_minute(now: datetime) -> dict[datetime, Counter[str]]:
    """How many requests had each outcome in each of the last MINUTES, oldest first; without those of test tokens."""
    last = now.replace(second=0, microsecond=0)
    minutes = {last - timedelta(minutes=back): Counter[str]() for back in reversed(range(MINUTES))}
    logged = RequestLogEntry.objects.filter(created_at__gte=min(minutes), outcome__in=OUTCOMES.keys() - {"test"})
    # As text, such as `2026-03-09 14:20`: on SQLite, TruncMinute calls a Python function for each row.
    rows = logged.annotate(minute=Substr(Cast("created_at", CharField()), 1, 16)).values_list("minute", "outcome")
    for minute, outcome, count in rows.annotate(total=Count("pk")).order_by():
        # A process with a fast clock may have logged in a minute that has not begun yet.
        minutes[min(datetime.fromisoformat(minute).replace(tzinfo=UTC), last)][outcome] += count
    return minutes


def _chart(minutes: Mapping[datetime, Counter[str]]) -> dict[str, Any]:
    """One SVG path for each outcome, stacked from the bottom up: failures first."""
    times, values = list(minutes), [*map(Requests.of, minutes.values())]
    most = max(each.total for each in values)
    below = [0.0] * len(values)
    paths = []
    for name in ("failed", "refused", "answered"):
        bars = []
        for index, each in enumerate(values):
            if count := getattr(each, name):
                height = max(1.0, round(HEIGHT * count / most, 1))
                bars.append(f"M{index * STEP} {HEIGHT - below[index]:g}v-{height:g}h{BAR}v{height:g}z")
                below[index] += height
        if bars:
            paths.append((name, "".join(bars)))
    return {
        "paths": paths,
        "most": most,
        "total": Requests.of(sum(minutes.values(), Counter[str]())),
        "first": times[0],
        "last": times[-1],
        "failures": [(at, each.failed) for at, each in zip(times, values, strict=True) if each.failed][-MAX_FAILURES:],
    }
