"""Checks of searches, balances and maintenance."""

from collections import Counter
from dataclasses import replace
from datetime import timedelta

from django.conf import settings
from django.utils import timezone

from accounts import audit, request_statistics
from accounts.request_statistics import DEGRADED, NEW_ANSWERS
from core import periods
from core.commands import command_line
from monitoring import task_runs
from monitoring.health.registry import STAYS_OPEN, Condition, Effect, Findings, Request, check, problem

HOUR = timedelta(hours=1)
#: Fewer failures are no problem of the searches.
MIN_FAILURES = 3
#: What the audit covers here; `audit_credits` checks the whole ledger.
AUDITED = timedelta(hours=1)


@check(
    "Searches",
    {"searches.degraded": "answers are degraded", "searches.failing": "searches fail"},
    is_delayed=True,
    in_doctor=False,
    on_dashboard=True,
)
def _searches(request: Request) -> Findings:
    this_hour = periods.hour(timezone.now())
    hours = request_statistics.by_step(this_hour - HOUR)
    counts = Counter(hours.get(this_hour, {}))
    if _answers(counts) + counts["failed"] < settings.ALERT_MIN_COUNT:
        counts = sum(map(Counter, hours.values()), Counter[str]())
    answers, failed = _answers(counts), counts["failed"]
    degraded = sum(counts[outcome] for outcome in DEGRADED)
    yield from _share(
        Condition(
            kind="searches.degraded",
            subject="",
            title="Answers are degraded",
            summary=f"{degraded:,} of {answers:,} new answers lack one slot, which failed.",
            hint="See which source fails or is paused on the Sources page.",
        ),
        degraded,
        answers,
        settings.ALERT_DEGRADED_PERCENT,
    )
    yield from _share(
        Condition(
            kind="searches.failing",
            subject="",
            title="Searches fail",
            summary=f"{failed:,} of {answers + failed:,} searches were answered with 500. Those that were charged are "
            "refunded, or answered when they are repeated with their Idempotency-Key.",
            hint=f"Both slots failed, or the database: run {command_line('doctor')}, and see the log.",
        ),
        failed,
        answers + failed,
        settings.ALERT_FAILED_PERCENT,
    )


def _answers(counts: Counter[str]) -> int:
    return sum(counts[outcome] for outcome in NEW_ANSWERS)


def _share(condition: Condition, part: int, total: int, limit_percent: float) -> Findings:
    percent = 100 * part / total if total >= settings.ALERT_MIN_COUNT else 0.0
    if percent > limit_percent * STAYS_OPEN:
        opens = percent > limit_percent and part >= MIN_FAILURES
        yield condition if opens else replace(condition, effect=Effect.PASSING)


@check("Balances")
def _balances(request: Request) -> Findings:
    if wrong := audit.audit(since=timezone.now() - AUDITED):
        tokens = ", ".join(f"#{each.token_id}" for each in wrong[:10])
        yield problem(
            f"Balance and ledger disagree for {len(wrong)} tokens: {tokens}.",
            f"Run {command_line(audit.TASK)}, and see docs/alerts.md, CalleridBalanceAuditFailed.",
        )
    else:
        yield "The ledger entries of the last hour agree."


@check("Audits", {"audit.failed": "balances and the ledger disagree"}, on_dashboard=True)
def _audits(request: Request) -> Findings:
    """What `audit_credits` last found."""
    runs = task_runs.all_runs()
    audits = [runs[name] for name in (audit.TASK, audit.TASK_SINCE) if name in runs]
    failed = {run.name: run.failure_at for run in audits if run.failure_at}
    for name, failed_at in failed.items():
        yield Condition(
            kind="audit.failed",
            subject=name,
            title="Balances and the ledger disagree",
            summary=f"{name} found it at {periods.shown(failed_at)}.",
            hint=f"Run {command_line(audit.TASK)}, which lists the tokens.",
        )
    if not failed:
        at = runs[audit.TASK].succeeded_at if audit.TASK in runs else None
        never = f"The whole ledger was never checked: run {command_line(audit.TASK)} weekly."
        yield f"The whole ledger agreed at {periods.shown(at)}." if at else never


@check("Maintenance", {"task.overdue": "tasks are overdue"}, on_dashboard=True)
def _maintenance(request: Request) -> Findings:
    runs = task_runs.all_runs()
    for name, limit in task_runs.OVERDUE.items():
        at = runs[name].succeeded_at if name in runs else None
        if task_runs.is_overdue(at, limit):
            yield Condition(
                kind="task.overdue",
                subject=name,
                title=f"Maintenance overdue: {name}",
                summary=f"It last succeeded at {periods.shown(at)}." if at else "It never succeeded.",
                hint=f"Run {command_line(name)}, and check its timer or cron.",
            )
        else:
            yield f"{name} last succeeded at {periods.shown(at)}." if at else f"{name} is not due yet."
