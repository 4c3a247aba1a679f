"""The check that `send_notices` makes each minute: it opens and closes incidents by the health checks.

Those that have kinds of incidents read what all processes and hosts write to the database, so that any host can check.
Figures have two limits, so that alerts do not flap: above the first an incident opens, and below the second, lower one
it closes.
"""

import logging

from django.utils import timezone

from monitoring import incidents, task_runs
from monitoring.health import checks
from monitoring.health.base import Context
from monitoring.incidents import Condition

log = logging.getLogger(__name__)


def check() -> tuple[int, int]:
    """Open and close incidents for the conditions that hold now; returns how many opened and closed.

    A check that fails is logged, and the incidents of its kinds stay as they are.
    """
    now = timezone.now()
    conditions: list[Condition] = []
    kinds: dict[str, bool] = {}
    failed: set[str] = set()
    for each in checks.CHECKS:
        if not each.kinds:
            continue
        kinds |= dict.fromkeys(each.kinds, each.is_delayed)
        try:
            conditions += [found for found in each.find(Context(now)) if isinstance(found, Condition)]
        except Exception:
            log.exception("alerts: the check of %s failed", ", ".join(each.kinds))
            failed.update(each.kinds)
    kinds = {kind: is_delayed for kind, is_delayed in kinds.items() if kind not in failed}
    changed = incidents.report(conditions=[each for each in conditions if each.kind in kinds], kinds=kinds, now=now)
    task_runs.record(task_runs.ALERTS, succeeded=not failed)
    return changed
