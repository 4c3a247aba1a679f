"""The check of all conditions, by `send_notices`, and whether it is done every minute."""

import logging
from datetime import datetime, timedelta

from django.utils import timezone

from contrib.alerts import incidents, sources
from contrib.alerts.group_titles import SAMPLED
from monitoring import task_runs
from monitoring.health.checks import all_checks
from monitoring.health.dependencies import SOURCE_KINDS
from monitoring.health.registry import Condition

log = logging.getLogger(__name__)

#: The name of the task. It runs only where alerts are on.
TASK = "alerts"
#: `send_notices` runs every minute.
OVERDUE = timedelta(minutes=15)


def is_overdue(checked_at: datetime | None, now: datetime) -> bool:
    """Whether what `send_notices` checks, last at `checked_at`, has not been checked for too long."""
    return checked_at is None or checked_at < now - OVERDUE


def alert_kinds() -> set[str]:
    """The kinds of incidents that only `check` opens and closes."""
    return {kind for each in all_checks() for kind in each.kinds}


def check() -> tuple[int, int]:
    """Open and close incidents for the conditions that hold now; returns how many opened and closed.

    Checks with kinds of incidents read what all processes and hosts write to the database, so any host can run this.
    One that fails is logged, and the incidents of its kinds stay as they are.
    """
    now = timezone.now()
    conditions: list[Condition] = []
    failed: set[str] = set()
    checked = [each for each in all_checks() if each.kinds]
    for each in checked:
        try:
            conditions += [found for found in each.find(None) if isinstance(found, Condition)]
        except Exception:
            log.exception("alerts: the check of %s failed", ", ".join(each.kinds))
            failed.update(each.kinds)
    kinds = {kind: each.is_delayed for each in checked for kind in each.kinds if kind not in failed}
    if not failed.intersection(SOURCE_KINDS):
        conditions += sources.unconfigured()
    changed = incidents.report(conditions=[each for each in conditions if each.kind in kinds], kinds=kinds, now=now)
    gone = incidents.unchecked(alert_kinds().union(SAMPLED), now)
    kinds = dict.fromkeys((each.kind for each in gone), False)
    incidents.report(conditions=gone, kinds=kinds, subjects=[each.subject for each in gone], now=now)
    incidents.notify_later(now)
    task_runs.record(TASK, succeeded=not failed)
    return changed
