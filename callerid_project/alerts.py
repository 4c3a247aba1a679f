"""The check that `send_notices` makes each minute: it opens and closes incidents by the health checks.

Those that have kinds of incidents read what all processes and hosts write to the database, so that any host can check.
Figures have two limits, so that alerts do not flap: above the first an incident opens, and below the second, lower one
it closes.
"""

import logging
from datetime import timedelta

from django.conf import settings
from django.utils import timezone

from accounts import alerts, task_runs
from accounts.alerts import Condition, Delays
from callerid_project.health import checks
from callerid_project.health.base import Context

log = logging.getLogger(__name__)


def check() -> tuple[int, int]:
    """Open and close incidents for the conditions that hold now; returns how many opened and closed.

    A check that fails is logged, and the incidents of its kinds stay as they are.
    """
    now = timezone.now()
    lasting = Delays(
        timedelta(minutes=settings.ALERT_OPEN_AFTER_MIN), timedelta(minutes=settings.ALERT_CLOSE_AFTER_MIN)
    )
    conditions: list[Condition] = []
    delays: dict[str, Delays] = {}
    failed: set[str] = set()
    for each in checks.CHECKS:
        if not each.kinds:
            continue
        delays |= dict.fromkeys(each.kinds, lasting if each.is_delayed else Delays())
        try:
            conditions += [found for found in each.find(Context(now)) if isinstance(found, Condition)]
        except Exception:
            log.exception("alerts: the check of %s failed", ", ".join(each.kinds))
            failed.update(each.kinds)
    delays = {kind: delay for kind, delay in delays.items() if kind not in failed}
    changed = alerts.report(conditions=[each for each in conditions if each.kind in delays], delays=delays, now=now)
    task_runs.record(task_runs.ALERTS, succeeded=not failed)
    return changed
