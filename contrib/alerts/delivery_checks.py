"""Checks of the notices, and of what serving processes report only as alerts."""

from datetime import timedelta

from django.conf import settings
from django.utils import timezone

from contrib.alerts import alert_recipients, checking, incidents, low_balance, notices
from contrib.alerts.group_titles import SAMPLED
from contrib.alerts.models import Notice
from core import periods
from core.commands import command_line
from monitoring import task_runs
from monitoring.health.registry import Check, Findings, Request, problem

#: `send_notices` runs every minute.
NOTICE_OVERDUE = timedelta(minutes=15)


def _processes(request: Request) -> Findings:
    """What serving processes, of any host, have found wrong with their clocks and client addresses."""
    found = list(incidents.open_incidents().filter(kind__in=SAMPLED))
    for each in found:
        yield problem(f"{each.title}. {each.summary}", each.hint)
    if not found:
        yield "Their clocks agree, and they can read all client addresses."


def _notices(request: Request) -> Findings:
    alerts_on = alert_recipients.alerts_are_on()
    if not (settings.LOW_BALANCE_NOTICES or alerts_on):
        yield "Off (LOW_BALANCE_NOTICES, ALERT_EMAILS, ALERT_WEBHOOK_URLS, alert recipients of the console)."
        return
    runs = [(alerts_on, "Alerts", checking.TASK)]
    runs += [(settings.LOW_BALANCE_NOTICES, "Low balances", low_balance.TASK)]
    for is_on, what, name in runs:
        checked_at = task_runs.succeeded_at(name)
        if is_on and checking.is_overdue(checked_at, timezone.now()):
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


PROCESSES = Check("Processes", _processes)
NOTICES = Check("Notices", _notices)
