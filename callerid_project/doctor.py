"""What the command `doctor` checks: all that the service needs, one after the other, each within a time limit."""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from types import FrameType

from django.conf import settings
from django.core import checks as system_checks
from django.db import DatabaseError, InterfaceError, connection
from django.utils import timezone

from accounts import audit, notices, task_runs
from accounts.models import Notice
from callerid_project import clocks, health
from callerid_project.health import HealthCheck
from core import periods, redis
from core.database_errors import describe
from lookup import statistics

TIME_LIMIT_S = 5
#: What the audit covers here; `audit_credits` checks the whole ledger.
AUDITED = timedelta(hours=1)
#: `send_notices` runs every minute.
NOTICE_OVERDUE = timedelta(minutes=15)


class TimeLimitExceeded(Exception):
    pass


def run() -> list[HealthCheck]:
    """All results, in order. What needs tables is not checked without a database that has every migration."""
    results: list[HealthCheck] = []
    usable = True
    for name, check, needs_tables in CHECKS:
        if needs_tables and not usable:
            results.append(HealthCheck(name, False, "Not checked: correct the database first."))
            continue
        result = _checked(name, check)
        if result is not None:
            results.append(result)
            usable = usable and (result.healthy or name != "Database")
    return results


def _checked(name: str, check: Callable[[], HealthCheck | None]) -> HealthCheck | None:
    """The result; of what raises, only the type, or core.database_errors.describe."""
    try:
        with _time_limit():
            return check()
    except TimeLimitExceeded:
        with suppress(Exception):
            connection.close()
        return HealthCheck(name, False, f"No answer within {TIME_LIMIT_S} s: see what it waits for, or restart it.")
    except (DatabaseError, InterfaceError) as error:
        what = "Start it, or correct DATABASE_URL" if not settings.EMBEDDED else "Check CALLERID_DATA_DIR"
        return HealthCheck(name, False, f"{describe(error)}. {what}.")
    except Exception as error:
        return HealthCheck(name, False, f"The check failed ({type(error).__name__}): report this as a bug.")


@contextmanager
def _time_limit() -> Iterator[None]:
    """Raises TimeLimitExceeded in the block after TIME_LIMIT_S: commands have no time limits of their own."""

    def expired(number: int, frame: FrameType | None) -> None:
        raise TimeLimitExceeded

    before = signal.signal(signal.SIGALRM, expired)
    signal.alarm(TIME_LIMIT_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _configuration() -> HealthCheck:
    """Django's system checks, in production those of `check --deploy` too. Warnings are shown and fail nothing."""
    found = system_checks.run_checks(include_deployment_checks=not settings.EMBEDDED)
    serious = [each for each in found if each.is_serious() and not each.is_silenced()]
    shown = serious or [each for each in found if each.level >= system_checks.WARNING and not each.is_silenced()]
    sentences = [" ".join(filter(None, [each.msg, each.hint])) for each in shown]
    if serious:
        return HealthCheck("Configuration", False, " ".join(sentences))
    return HealthCheck("Configuration", True, " ".join(["No errors.", *(f"Warning: {text}" for text in sentences)]))


def _key_files() -> HealthCheck:
    directory = settings.DATA_DIR
    files = [directory / "keys.json", *directory.glob("callerid.sqlite3*")]
    exposed = [file for file in files if file.exists() and file.stat().st_mode & 0o077]
    if exposed:
        names = " ".join(map(str, exposed))
        return HealthCheck("Key files", False, f"Other users of this machine may use them: run chmod 600 {names}")
    if settings.EMBEDDED:
        return HealthCheck("Key files", True, f"Only their owner may read those in {directory}.")
    return HealthCheck("Key files", True, "The keys come from the environment.")


def _database() -> HealthCheck:
    connection.ensure_connection()
    return health.database_server()


def _clocks() -> HealthCheck:
    """How far the clocks of the database and of Redis are from this host's, and which other hosts' clocks differ."""
    differences: dict[str, float] = {}
    if connection.vendor == "postgresql":
        differences["PostgreSQL"] = clocks.difference_s(clocks.database_time)
    if settings.REDIS_URL:

        def redis_time() -> float:
            seconds, microseconds = redis.client(settings.REDIS_URL).time()
            return float(seconds + microseconds / 1e6)

        with suppress(redis.RedisUnavailable):  # reported by its own check
            differences["Redis"] = redis.call(lambda: clocks.difference_s(redis_time))
    wrong = [f"{name}'s clock differs from that of this host by {by:+.1f} s." for name, by in differences.items()
             if abs(by) > clocks.MAX_DIFFERENCE_S]  # fmt: skip
    wrong += clocks.wrong_hosts()
    if wrong:
        return HealthCheck("Clocks", False, " ".join([*wrong, "Synchronize all hosts by NTP."]))
    shown = ", ".join(f"{name} {by:+.2f} s" for name, by in differences.items())
    return HealthCheck("Clocks", True, f"Differences from this host: {shown}." if shown else "No other clock is used.")


def _sources() -> HealthCheck:
    result = health.sources()
    hour = timezone.now().replace(minute=0, second=0, microsecond=0)
    opened = [f"{name} ({usage.opened} times)" for name, usage in statistics.by_source(hour)[1].items()]
    if not opened:
        return result
    sentence = f"Circuit breakers that opened since {hour:%H:%M} UTC: {', '.join(opened)}."
    if result.healthy:
        return HealthCheck("Sources", True, f"{result.detail} {sentence}")
    advice = "Run manage.py check_sources, which says what to correct."
    return HealthCheck("Sources", False, f"{result.detail} {sentence} {advice}")


def _audit() -> HealthCheck:
    advice = "Run manage.py audit_credits, and see docs/alerts.md, CalleridBalanceAuditFailed."
    if wrong := audit.audit(since=timezone.now() - AUDITED):
        tokens = ", ".join(f"#{each.token_id}" for each in wrong[:10])
        return HealthCheck(
            "Balances", False, f"Balance and ledger disagree for {len(wrong)} tokens: {tokens}. {advice}"
        )
    for name, failed_at in task_runs.failed_audits().items():
        return HealthCheck("Balances", False, f"{name} failed at {periods.shown(failed_at)}. {advice}")
    full = task_runs.all_runs().get(task_runs.AUDIT)
    whole = f"The whole ledger agreed at {periods.shown(full.succeeded_at)}." if full and full.succeeded_at else (
        "The whole ledger was never checked: run manage.py audit_credits weekly."
    )  # fmt: skip
    return HealthCheck("Balances", True, f"The ledger entries of the last hour agree. {whole}")


def _notices() -> HealthCheck:
    now = timezone.now()
    if not (settings.LOW_BALANCE_NOTICES or settings.ALERTS):
        return HealthCheck("Notices", True, "Off (LOW_BALANCE_NOTICES, ALERT_EMAILS, ALERT_WEBHOOK_URLS).")
    checked = task_runs.all_runs().get(task_runs.ALERTS)
    checked_at = checked.succeeded_at if checked else None
    if settings.ALERTS and (checked_at is None or checked_at < now - task_runs.ALERTS_OVERDUE):
        when = f"were last checked at {periods.shown(checked_at)}" if checked_at else "were never checked"
        return HealthCheck("Notices", False, f"Alerts {when}: run manage.py send_notices every minute.")
    due = Notice.objects.filter(due_at__isnull=False)
    if not settings.LOW_BALANCE_NOTICES:
        due = due.exclude(event=Notice.Event.BALANCE_LOW)
    if overdue := due.filter(due_at__lt=now - NOTICE_OVERDUE).count():
        return HealthCheck("Notices", False, f"{overdue} are overdue: run manage.py send_notices every minute.")
    failed = due.filter(notices.FAILED).count()
    if failed:
        advice = "Correct EMAIL_URL, the webhooks or the contacts (Notices in the console has the errors)."
        return HealthCheck("Notices", False, f"{failed} could not be sent and will be tried again. {advice}")
    given_up = Notice.objects.filter(outcome=notices.GIVEN_UP).count()
    return HealthCheck("Notices", True, f"{due.count()} wait to be sent; {given_up} were given up.")


def _prune() -> HealthCheck:
    last = task_runs.all_runs().get(task_runs.PRUNE)
    at = last.succeeded_at if last else None
    if task_runs.PRUNE in task_runs.overdue(timezone.now()):
        when = f"It last succeeded at {periods.shown(at)}" if at else "It never ran"
        return HealthCheck("Prune", False, f"{when}, and expired data is kept: run manage.py prune daily, from cron.")
    return HealthCheck("Prune", True, f"It last succeeded at {periods.shown(at)}." if at else "Not due yet.")


def _proxy() -> HealthCheck:
    if unexpected := health.unexpected_proxy():
        return unexpected
    trusted = settings.TRUSTED_PROXIES
    if not settings.EMBEDDED and trusted == 0:
        return HealthCheck("Proxy", False, "TRUSTED_PROXIES is 0: set it to the number of proxies in front.")
    if "*" in settings.ALLOWED_HOSTS:
        return HealthCheck("Proxy", False, "ALLOWED_HOSTS accepts every Host header: list the names of the service.")
    return HealthCheck(
        "Proxy", True, f"TRUSTED_PROXIES is {trusted}; ALLOWED_HOSTS is {','.join(settings.ALLOWED_HOSTS)}."
    )


#: Name, check, and whether it reads tables.
CHECKS: tuple[tuple[str, Callable[[], HealthCheck | None], bool], ...] = (
    ("Configuration", _configuration, False),
    ("Key files", _key_files, False),
    ("Database", _database, False),
    ("Commits", health.commits, True),
    ("PostgreSQL log", health.database_log, True),
    ("Redis", health.redis_server, False),
    ("Redis memory", health.redis_memory, False),
    ("Clocks", _clocks, True),
    ("Numbering plan", health.numbering_plan, True),
    ("Complaint data", health.complaint_data, True),
    ("Address books", health.address_books, True),
    ("Sources", _sources, True),
    ("Balances", _audit, True),
    ("Notices", _notices, True),
    ("Prune", _prune, True),
    ("Proxy", _proxy, False),
)
