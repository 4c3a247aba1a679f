"""The console's first page: whether the service works now, what needs attention, searches, credits, tokens that run
out, and sources.

The number of statements is fixed, and none of them reads the searches in the ledger.
"""

from collections import Counter
from contextlib import suppress
from datetime import datetime
from typing import Any

from django.db import OperationalError
from django.db.models import Count, prefetch_related_objects
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils import timezone
from django.utils.module_loading import import_string

from accounts import request_statistics, sales, unknown_charges
from accounts.admin.charts import requests_chart
from accounts.admin.token_list import SOON_DAYS
from accounts.models import ApiToken, CreditEntry, UnknownCharge
from accounts.request_statistics import CHARGED, DEGRADED, FOUND, NEW_ANSWERS, REFUSED, SEARCHES
from console.blocks import ATTENTION, BLOCKS, Figures
from core import periods
from core.db import statement_timeout
from core.periods import Period
from lookup.models import SourcePause
from lookup.source_actions import configured
from monitoring import service_status, source_report
from monitoring.health import checks
from monitoring.health.registry import Result

VIEW_TOKENS = "accounts.view_apitoken"
RUNNING_OUT_TIMEOUT_S = 10
MAX_RUNNING_OUT = 10


def context(request: HttpRequest, context: dict[str, Any]) -> dict[str, Any]:
    """Unfold's DASHBOARD_CALLBACK: `context` and the blocks that this operator may view."""
    now, period = timezone.now(), periods.from_query(request.GET)
    since, until = period.since(now), period.until(now)
    can_view_sources, can_view_ledger, can_view_tokens = map(
        request.user.has_perm, ("monitoring.view_source", "accounts.view_creditentry", VIEW_TOKENS)
    )
    blocks: dict[str, Any] = {}
    if can_view_sources or can_view_ledger:
        steps = request_statistics.by_step(since, until, step=period.step)
        total = sum(map(Counter, steps.values()), Counter[str]())
    if can_view_sources:
        states = source_report.states(now)
        blocks["status"] = service_status.status(now, states)
        blocks["searches"] = _searches(total)
        blocks["chart"] = _chart(steps, period, now)
        blocks["report"] = source_report.report(since, until, states)
    if can_view_ledger:
        blocks["credits"] = _credits(total, since, until)
    if added := _added(request, Figures(now, since, until, blocks.get("credits"), blocks.get("report"))):
        blocks["added"] = added
    if can_view_tokens:
        blocks["tokens"] = {"outstanding": _outstanding(now)}
        blocks["token_counts"] = _token_counts(now)
    if attention := list(filter(None, (import_string(path)(request) for path in ATTENTION))):
        blocks["attention"] = attention
    if can_view_sources or attention:
        reported = frozenset().union(*(each.reported for each in attention))
        blocks["health"] = _health(checks.for_dashboard(request, reported))
        blocks["pauses"] = SourcePause.objects.filter(pk__in=configured()).order_by("pk")
    shown = {"now": now, "periods": periods.ALL, "period": period, "described": period.described(now)}
    return {**context, **shown, "is_empty": not blocks, "is_quiet": _is_quiet(blocks), **blocks}


def _is_quiet(blocks: dict[str, Any]) -> bool:
    """Whether nothing needs attention of what this operator may view, besides the tokens that run out, which the page
    loads by itself."""
    health = blocks.get("health", {})
    found = [blocks.get("pauses"), health.get("critical"), health.get("unhealthy")]
    found += [not each.is_quiet for each in blocks.get("attention", ())]
    if "token_counts" in blocks:
        counts = blocks["token_counts"]
        found.append(counts is None or any(counts.values()))
    return not any(found)


def _health(results: list[Result]) -> dict[str, Any]:
    """`unhealthy`: those that are not `critical`. `others`: those that need no attention."""
    others = [each for each in results if each.healthy]
    return {
        "critical": [each for each in results if not each.healthy and each.critical],
        "unhealthy": [each for each in results if not each.healthy and not each.critical],
        "others": others,
        "healthy": sum(each.used for each in others),
        "unused": [each.component for each in others if not each.used],
    }


def _searches(total: Counter[str]) -> dict[str, Any]:
    """Percentages are of new answers; None if there were none."""
    new_answers, found, degraded = (
        sum(total[outcome] for outcome in outcomes) for outcomes in (NEW_ANSWERS, FOUND, DEGRADED)
    )
    return {
        "answered": sum(total[outcome] for outcome in SEARCHES),
        "found_percent": f"{100 * found / new_answers:.0f}" if new_answers else None,
        "degraded": degraded,
        "degraded_percent": f"{100 * degraded / new_answers:.0f}" if new_answers else None,
        "refused": sum(total[outcome] for outcome in REFUSED),
        "failed": total["failed"],
    }


def _added(request: HttpRequest, figures: Figures) -> list[tuple[str, dict[str, Any]]]:
    """Templates and values of the blocks of add-ons."""
    found = ((block.template, import_string(block.context)(request, figures)) for block in BLOCKS)
    return [(template, values) for template, values in found if values is not None]


def _credits(total: Counter[str], since: datetime, until: datetime) -> dict[str, int]:
    """`spent` is from the statistics of searches, the rest from the ledger. `lost` of the refunds are for searches that
    were answered with 500; `unknown`: searches of which it is not known yet whether they were charged, of any time."""
    amounts, lost = Counter(sales.ledger_sums(since, until)), Counter(unknown_charges.count(since, until=until))
    return {
        "issued": amounts[CreditEntry.Kind.ISSUE] + amounts[CreditEntry.Kind.TOP_UP],
        "refunded": amounts[CreditEntry.Kind.REFUND],
        "lost": lost[UnknownCharge.Outcome.REFUNDED],
        "unknown": lost[UnknownCharge.Outcome.UNKNOWN],
        "adjusted": amounts[CreditEntry.Kind.ADJUSTMENT],
        "spent": sum(total[outcome] for outcome in CHARGED),
    }


def _outstanding(now: datetime) -> tuple[int, int] | None:
    """None if the query timed out: it grows with the number of tokens, and the rest of the page is needed most then."""
    try:
        return sales.outstanding(now)
    except OperationalError:
        return None


def _token_counts(now: datetime) -> dict[str, int] | None:
    """How many need attention, each counted once, and how many of those without credits are in use; None if the query
    timed out, as above. One statement."""
    empty = request_statistics.out_of_credits(now)
    try:
        return ApiToken.objects.aggregate(
            expiring=Count("pk", filter=request_statistics.expiring(now, SOON_DAYS)),
            empty=Count("pk", filter=empty),
            empty_in_use=Count("pk", filter=empty & request_statistics.in_use(now)),
        )
    except OperationalError:
        return None


def running_out(request: HttpRequest) -> HttpResponse:
    """The tokens that run out soon, which the page loads by itself (later.js): with 100,000 tokens the query takes as
    long as the rest of the page."""
    context: dict[str, Any] = {"running_out": None}
    with suppress(OperationalError), statement_timeout(RUNNING_OUT_TIMEOUT_S):
        shown, count = request_statistics.ending(timezone.now(), within_days=SOON_DAYS, limit=MAX_RUNNING_OUT)
        prefetch_related_objects([each.token for each in shown], "customer")
        context = {"running_out": shown, "more": count - len(shown)}
    return TemplateResponse(request, "admin/running_out.html", context)


def _chart(counts: dict[datetime, dict[str, int]], period: Period, now: datetime) -> dict[str, Any]:
    """A bar for every hour or day of the period, including those without requests."""
    # A process with a fast clock may have counted in an hour that has not begun yet.
    steps = {at: Counter(counts.get(at)) for at in (*period.steps(now), *counts)}
    return requests_chart(steps, label=period.step_label, by=period.step)
