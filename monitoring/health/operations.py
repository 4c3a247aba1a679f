"""Checks of searches, tokens, balances, notices and maintenance."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta

from django.conf import settings
from django.utils import timezone

from accounts import audit, request_statistics
from accounts.credits import credits_text
from accounts.models import ApiToken
from accounts.request_statistics import DEGRADED, NEW_ANSWERS
from core import periods
from core.commands import command_line
from monitoring import alert_recipients, incidents, notices, task_runs
from monitoring.health.base import STAYS_OPEN, Findings, Request, check, problem
from monitoring.incidents import Condition, Effect
from monitoring.models import Notice

HOUR = timedelta(hours=1)
#: Fewer failures open no incident about searches.
MIN_FAILURES = 3
#: Open incidents about single tokens, for each kind of incident; one further incident is about all other tokens.
MAX_TOKENS = 20
#: An expired token that was neither rotated nor revoked is reported for so long.
EXPIRED_FOR = timedelta(days=30)
#: What the audit covers here; `audit_credits` checks the whole ledger.
AUDITED = timedelta(hours=1)
#: `send_notices` runs every minute.
NOTICE_OVERDUE = timedelta(minutes=15)


@check("Searches", "searches.degraded", "searches.failing", is_delayed=True, in_doctor=False, on_dashboard=True)
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


@check("Expiring tokens", "token.expiring", in_doctor=False)
def _expiring_tokens(request: Request) -> Findings:
    now, days = timezone.now(), settings.ALERT_EXPIRY_DAYS
    if not days:
        return
    tokens = (
        ApiToken.objects.filter(revoked_at=None, is_test=False)
        .filter(expires_at__gt=now - EXPIRED_FOR, expires_at__lte=now + timedelta(days=days))
        .order_by("expires_at", "pk")
    )
    conditions = []
    for pk, expires_at in tokens.values_list("pk", "expires_at"):
        verb = "expires" if expires_at > now else "expired"
        summary = f"It {verb} at {periods.shown(expires_at)}."
        conditions.append(_about_token("token.expiring", pk, f"{verb} on {_day(expires_at)}", summary))
    hint = "Rotate it, which renews its lifetime, or revoke it."
    yield from _capped(conditions, hint, f"expire within {days} days or have expired")


@check("Credits", "token.running_out", "token.out_of_credits", in_doctor=False)
def _credits(request: Request) -> Findings:
    days, now = settings.ALERT_RUNNING_OUT_DAYS, timezone.now()
    if not days:
        return
    empty, soon = [], []
    for each in request_statistics.running_out(now, within_days=2 * days):
        pk, credits = each.token.pk, each.token.credits
        if not credits:
            refused = "Its searches are refused with 403."
            empty.append(_about_token("token.out_of_credits", pk, "is out of credits", refused))
        use = f"It has {credits_text(credits)}, and uses {each.rate_a_day:,.1f} a day."
        condition = _about_token("token.running_out", pk, f"runs out of credits on {_day(each.end.at)}", use)
        opens = credits > 0 and each.end.at <= now + timedelta(days=days)
        soon.append(condition if opens else replace(condition, effect=Effect.PASSING))
    yield from _capped(empty, "Top up the token.", "in use are out of credits")
    yield from _capped(soon, "Top up the token.", f"will run out of credits within {days} days")


def _day(at: datetime) -> str:
    return f"{at:%d %B}".lstrip("0")


def _about_token(kind: str, token_id: int, what: str, summary: str) -> Condition:
    """`what`: its title without the token's name, which `_named` adds."""
    return Condition(kind, str(token_id), what, summary)


def _named(conditions: list[Condition]) -> Iterable[Condition]:
    """With the names of the tokens and of their customers. One statement."""
    tokens = ApiToken.objects.filter(pk__in=[each.subject for each in conditions])
    names = {str(pk): (name, customer) for pk, name, customer in tokens.values_list("pk", "name", "customer__name")}
    for each in conditions:
        name, customer = names.get(each.subject, ("", None))
        token = f"{name or 'API token'} (#{each.subject}){f' of {customer}' if customer else ''}"
        yield replace(each, title=f"{token} {each.title}")


def _capped(conditions: list[Condition], hint: str, what: str) -> Iterable[Condition]:
    """No more than MAX_TOKENS of them have an incident of their own, with `hint`; one incident is about all others."""
    if not conditions:
        return
    conditions = [replace(each, hint=hint) for each in conditions]
    if len(conditions) <= MAX_TOKENS:
        yield from _named(conditions)
        return
    known = set(incidents.current().filter(kind=conditions[0].kind).values_list("subject", flat=True))
    # Those with an incident first: the order of the others may change with each check.
    conditions.sort(key=lambda each: (each.subject not in known, each.effect is Effect.PASSING))
    own, others = conditions[:MAX_TOKENS], conditions[MAX_TOKENS:]
    kept_open = [replace(each, effect=Effect.PASSING) for each in others if each.subject in known]
    yield from _named([*own, *kept_open])
    if count := sum(each.effect is Effect.ALERT for each in others):
        summary = f"{count:,} more API tokens {what}."
        title = f"More than {MAX_TOKENS} API tokens {what}"
        yield Condition(others[0].kind, "others", title, summary, "See the list of API tokens.")


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


@check("Audits", "audit.failed", on_dashboard=True)
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


@check("Maintenance", "task.overdue", on_dashboard=True)
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


@check("Notices")
def _notices(request: Request) -> Findings:
    alerts_on = alert_recipients.alerts_are_on()
    if not (settings.LOW_BALANCE_NOTICES or alerts_on):
        yield "Off (LOW_BALANCE_NOTICES, ALERT_EMAILS, ALERT_WEBHOOK_URLS, alert recipients of the console)."
        return
    runs = [(alerts_on, "Alerts", task_runs.ALERTS)]
    runs += [(settings.LOW_BALANCE_NOTICES, "Low balances", task_runs.LOW_BALANCE)]
    for is_on, what, name in runs:
        checked_at = task_runs.succeeded_at(name)
        if is_on and task_runs.alerts_are_overdue(checked_at, timezone.now()):
            when = f"were last checked at {periods.shown(checked_at)}" if checked_at else "were never checked"
            yield problem(f"{what} {when}", f"Run {command_line('send_notices')} every minute.")
    due = notices.pending()
    waiting, given_up = due.count(), Notice.objects.filter(outcome=notices.GIVEN_UP).count()
    if overdue := due.filter(due_at__lt=timezone.now() - NOTICE_OVERDUE).count():
        yield problem(f"{overdue} are overdue", f"Run {command_line('send_notices')} every minute.")
    elif failed := due.filter(notices.FAILED).count():
        yield problem(
            f"{failed} could not be sent and will be tried again",
            "Correct EMAIL_URL, the webhooks or the contacts (Notices in the console has the errors).",
        )
    yield f"{waiting} wait to be sent; {given_up} were given up."
