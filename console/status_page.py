"""The dashboard's first block: whether the service works, and its requests of the last hour by minute."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils import timezone

from monitoring import service_status, source_report
from monitoring.service_status import Requests, Status
from monitoring.source_report import State

#: Of the chart, in units of its view box: each minute has a bar.
HEIGHT, STEP, BAR = 60, 10, 8
#: Minutes with failures that are named.
MAX_FAILURES = 5
PERMISSION = "monitoring.view_source"


def view(request: HttpRequest) -> HttpResponse:
    """The block alone, which status.js requests."""
    if not request.user.has_perm(PERMISSION):
        raise PermissionDenied
    now = timezone.now()
    return TemplateResponse(request, "admin/status.html", context(now, source_report.states(now)))


def context(now: datetime, states: Mapping[str, State]) -> dict[str, Any]:
    status = service_status.status(now, states)
    return {"status": status, "chart": _chart(status)}


def _chart(status: Status) -> dict[str, Any] | None:
    """One SVG path for each outcome, stacked from the bottom up: failures first."""
    if status.minutes is None:
        return None
    times, values = list(status.minutes), list(status.minutes.values())
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
    failures = [(at, each.failed) for at, each in status.minutes.items() if each.failed]
    return {
        "paths": paths,
        "most": most,
        "total": Requests.sum(values),
        "first": times[0],
        "last": times[-1],
        "failures": failures[-MAX_FAILURES:],
    }
