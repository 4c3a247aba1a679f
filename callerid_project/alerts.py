"""The conditions that alerts report, and the check that `send_notices` makes each minute. docs/alerts.md lists them.

They are read from what all processes and hosts write to the database, so that any host can check. Figures have two
limits, so that alerts do not flap: above the first an incident opens, and below the second, lower one it closes.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime, timedelta

from django.conf import settings
from django.utils import timezone

from accounts import alerts, task_runs
from accounts import statistics as request_statistics
from accounts.alerts import Condition, Delays
from accounts.models import ApiToken
from accounts.statistics import DEGRADED, NEW_ANSWERS
from callerid_project import clocks, health
from core import periods
from lookup import source_report, statistics
from lookup.address_books import status as address_books_status
from lookup.imports import data_sets
from lookup.source_actions import configured
from lookup.statistics import SourceUsage

log = logging.getLogger(__name__)

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
#: Fewer failures open no incident about searches.
MIN_FAILURES = 3
#: An incident stays open until a percentage has fallen to half of what opens it, a duration to four fifths.
STAYS_OPEN, STAYS_SLOW = 0.5, 0.8
#: Open incidents about single tokens, for each kind of incident; one further incident is about all other tokens.
MAX_TOKENS = 20
#: An expired token that was neither rotated nor revoked is reported for so long.
EXPIRED_FOR = timedelta(days=30)
#: An address book is synchronized each hour: one failure is not reported.
BOOK_FAILING = timedelta(hours=3)


def check() -> tuple[int, int]:
    """Open and close incidents for the conditions that hold now; returns how many opened and closed.

    A check that fails is logged, and its incidents stay as they are.
    """
    now = timezone.now()
    conditions: list[Condition] = []
    delays: dict[str, Delays] = {}
    lasting = Delays(
        timedelta(minutes=settings.ALERT_OPEN_AFTER_MIN), timedelta(minutes=settings.ALERT_CLOSE_AFTER_MIN)
    )
    complete = True
    for kinds, find, changes_quickly in CHECKS:
        try:
            found = list(find(now))
        except Exception:
            log.exception("alerts: the check of %s failed", ", ".join(kinds))
            complete = False
        else:
            conditions += found
            delays |= dict.fromkeys(kinds, lasting if changes_quickly else Delays())
    changed = alerts.report(conditions=conditions, delays=delays, now=now)
    task_runs.record(task_runs.ALERTS, succeeded=complete)
    return changed


# --- Sources and searches ----------------------------------------------------------------------------------------


def _sources(now: datetime) -> Iterable[Condition]:
    usages = source_report.usages(now)
    for name, usage in usages.items():
        yield from _slow(name, usage)
    for each in source_report.failed(now, usages):
        stays_open = each.is_recent and each.percent >= source_report.FAILING_PERCENT * STAYS_OPEN
        if each.unanswered or stays_open:
            count = f"{each.failed:,} of {each.total:,} lookups failed. " if each.failed else ""
            yield Condition(
                kind="source.failing",
                subject=each.last.connector,
                title=f"Source failing: {each.last.connector}",
                summary=f"{count}Last failure: {each.last.reason}, at {periods.shown(each.last.at)}.",
                hint=_sentence(each.last.hint) or "Run manage.py check_sources, which says what to correct.",
                opens=each.is_failing,
            )


def _slow(name: str, usage: SourceUsage) -> Iterable[Condition]:
    p95_ms = usage.p95_ms
    if usage.calls >= settings.ALERT_MIN_COUNT and p95_ms and p95_ms > settings.ALERT_SLOW_MS * STAYS_SLOW:
        duration = f"{p95_ms:,.0f}" if p95_ms < statistics.BOUNDS_MS[-1] else f"more than {statistics.BOUNDS_MS[-1]:,}"
        yield Condition(
            kind="source.slow",
            subject=name,
            title=f"Source slow: {name}",
            summary=f"5 % of {usage.calls:,} calls took {duration} ms or longer. A search waits at most "
            f"{settings.SEARCH_DEADLINE_S * 1000:,.0f} ms.",
            hint="For a vendor, see its status page; for a local source, the load of the database. "
            "If it stays slow, pause it.",
            opens=p95_ms > settings.ALERT_SLOW_MS,
        )


def _searches(now: datetime) -> Iterable[Condition]:
    hours = request_statistics.by_hour(periods.hour(now) - HOUR)
    counts = Counter(hours.get(periods.hour(now), {}))
    if _answers(counts) + counts["failed"] < settings.ALERT_MIN_COUNT:
        counts = sum(map(Counter, hours.values()), Counter[str]())
    answers, failed = _answers(counts), counts["failed"]
    degraded = sum(counts[outcome] for outcome in DEGRADED)
    yield from _share(
        Condition(
            kind="searches.degraded",
            subject="",
            title="Answers are degraded",
            summary=f"{degraded:,} of {answers:,} new answers lack one source, which failed.",
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
            hint="Both sources failed, or the database: run manage.py doctor, and see the log.",
        ),
        failed,
        answers + failed,
        settings.ALERT_FAILED_PERCENT,
    )


def _answers(counts: Counter[str]) -> int:
    return sum(counts[outcome] for outcome in NEW_ANSWERS)


def _share(condition: Condition, part: int, total: int, limit_percent: float) -> Iterable[Condition]:
    percent = 100 * part / total if total >= settings.ALERT_MIN_COUNT else 0.0
    if percent > limit_percent * STAYS_OPEN:
        yield replace(condition, opens=percent > limit_percent and part >= MIN_FAILURES)


def _redis(now: datetime) -> Iterable[Condition]:
    check = health.redis_server()
    if not check.healthy:
        yield Condition(kind="redis.unavailable", subject="", title="Redis is unavailable", summary=check.detail)


# --- Tokens ------------------------------------------------------------------------------------------------------


def _expiring_tokens(now: datetime) -> Iterable[Condition]:
    days = settings.ALERT_EXPIRY_DAYS
    if not days:
        return []
    tokens = (
        ApiToken.objects.filter(revoked_at=None, is_test=False)
        .filter(expires_at__gt=now - EXPIRED_FOR, expires_at__lte=now + timedelta(days=days))
        .order_by("expires_at", "pk")
        .values_list("pk", "expires_at")
    )
    conditions = [
        Condition(
            kind="token.expiring",
            subject=str(pk),
            title=f"API token #{pk} {'expires soon' if expires_at > now else 'has expired'}",
            summary=f"It {'expires' if expires_at > now else 'expired'} at {periods.shown(expires_at)}.",
            hint="Rotate it, which renews its lifetime, or revoke it.",
        )
        for pk, expires_at in tokens
    ]
    return _capped(conditions, f"expire within {days} days or have expired")


def _credits(now: datetime) -> Iterable[Condition]:
    days = settings.ALERT_RUNNING_OUT_DAYS
    if not days:
        return []
    empty, soon = [], []
    for each in request_statistics.running_out(now, within_days=2 * days):
        pk = each.token.pk
        if not each.token.credits:
            empty.append(
                Condition(
                    kind="token.out_of_credits",
                    subject=str(pk),
                    title=f"API token #{pk} is out of credits",
                    summary="Its searches are refused with 403.",
                    hint="Top it up.",
                )
            )
        soon.append(
            Condition(
                kind="token.running_out",
                subject=str(pk),
                title=f"API token #{pk} runs out of credits",
                summary=f"It has {each.token.credits:,} credits, and uses {each.rate_a_day:,.1f} a day.",
                hint="Top it up.",
                opens=each.token.credits > 0 and each.at <= now + timedelta(days=days),
            )
        )
    return [*_capped(empty, "are out of credits"), *_capped(soon, "run out of credits")]


def _capped(conditions: list[Condition], what: str) -> Iterable[Condition]:
    """No more than MAX_TOKENS of them have an incident of their own; one incident is about all others."""
    if len(conditions) <= MAX_TOKENS:
        yield from conditions
        return
    known = set(alerts.current().filter(kind__in={each.kind for each in conditions}).values_list("kind", "subject"))

    def is_new(condition: Condition) -> bool:
        return (condition.kind, condition.subject) not in known

    # Those with an incident first: the order of the others may change with each check.
    own = sorted((each for each in conditions if each.opens or not is_new(each)), key=is_new)
    others = [each for each in own[MAX_TOKENS:] if each.opens]
    yield from own[:MAX_TOKENS]
    yield from (replace(each, opens=False) for each in own[MAX_TOKENS:])
    if others:
        yield Condition(
            kind=others[0].kind,
            subject="others",
            title=f"More API tokens {what}",
            summary=f"{len(others):,} more API tokens {what}.",
            hint="See the list of API tokens.",
        )


# --- Data and maintenance ----------------------------------------------------------------------------------------


def _audits(now: datetime) -> Iterable[Condition]:
    for name, failed_at in task_runs.failed_audits().items():
        yield Condition(
            kind="audit.failed",
            subject=name,
            title="Balances and the ledger disagree",
            summary=f"{name} found it at {periods.shown(failed_at)}.",
            hint=f"Run manage.py {task_runs.AUDIT}, which lists the tokens.",
        )


def _data_sets(now: datetime) -> Iterable[Condition]:
    plan = health.numbering_plan()
    if not plan.healthy:
        yield Condition(
            kind="data.stale", subject="numbering_plan", title="Numbering plan is not current", summary=plan.detail
        )
    if "complaints" not in configured():
        return
    loaded = data_sets.loaded(now)
    old = {each.source: f"The newest data is {each.age_days:,} days old." for each in loaded if each.is_stale}
    never = set(settings.REFRESH_SOURCES) - {each.source for each in loaded}
    for source, summary in {**old, **dict.fromkeys(sorted(never), "It was never loaded.")}.items():
        yield Condition(
            kind="data.stale",
            subject=source,
            title=f"Complaint data is stale: {source}",
            summary=summary,
            hint="Run manage.py refresh_data, and daily from a timer or cron.",
        )


def _address_books(now: datetime) -> Iterable[Condition]:
    for book in address_books_status.statuses(now):
        row = book.row
        if book.is_configured and (book.is_stale or row.error):
            synced = f"Last synchronized at {periods.shown(row.synced_at)}." if row.synced_at else "Never synchronized."
            yield Condition(
                kind="address_book.failing",
                subject=row.name,
                title=f"Address book not synchronized: {row.name}",
                summary=f"{synced} {_sentence(row.error)}".strip(),
                hint="Run manage.py sync_contacts, and hourly from a timer or cron.",
                opens=book.is_stale or (book.age or DAY) > BOOK_FAILING,
            )


def _tasks(now: datetime) -> Iterable[Condition]:
    for name, at in task_runs.overdue(now).items():
        yield Condition(
            kind="task.overdue",
            subject=name,
            title=f"Maintenance overdue: {name}",
            summary=f"It last succeeded at {periods.shown(at)}." if at else "It never succeeded.",
            hint=f"Run manage.py {name}, and check its timer or cron.",
        )


def _sentence(text: str) -> str:
    text = text.strip()
    return text if not text or text.endswith(".") else f"{text}."


#: Kinds, what finds their conditions, and whether they change so quickly that an incident opens and closes with delay.
CHECKS: tuple[tuple[tuple[str, ...], Callable[[datetime], Iterable[Condition]], bool], ...] = (
    (("source.failing", "source.slow"), _sources, True),
    (("searches.degraded", "searches.failing"), _searches, True),
    (("redis.unavailable",), _redis, True),
    (("token.expiring",), _expiring_tokens, False),
    (("token.running_out", "token.out_of_credits"), _credits, False),
    (("audit.failed",), _audits, False),
    (("data.stale",), _data_sets, False),
    (("address_book.failing",), _address_books, False),
    (("task.overdue",), _tasks, False),
)
#: All kinds of incidents; each serving process checks its host's clock itself.
KINDS = (*(kind for kinds, _, _ in CHECKS for kind in kinds), clocks.KIND)
