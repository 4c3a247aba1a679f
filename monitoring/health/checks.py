"""What reads the list of all health checks: the dashboard, the command `doctor`, and the check of `send_notices`."""

import logging
from collections.abc import Collection
from contextlib import suppress

from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection
from django.http import HttpRequest
from django.utils import timezone

from core.database_errors import describe, explain, sqlstate
from core.time_limit import time_limit
from monitoring import incidents, task_runs
from monitoring.health import dependencies, operations  # noqa: F401  (their checks, in this order)
from monitoring.health.base import CHECKS, Check, Result
from monitoring.incidents import Condition

log = logging.getLogger(__name__)

#: Of each check in `doctor`: commands have no time limits of their own.
TIME_LIMIT_S = 5


def for_dashboard(request: HttpRequest, reported: Collection[tuple[str, str]] = ()) -> list[Result]:
    """The results that the dashboard shows, now, without what is `reported` by the open alerts beside them. Raises
    DatabaseError if the database does not respond."""
    results = [check.result(request, reported) for check in CHECKS if check.on_dashboard]
    return [each for each in results if each]


def alert_kinds() -> set[str]:
    """The kinds of incidents that only `for_alerts` opens and closes."""
    return {kind for check in CHECKS for kind in check.kinds}


# --- Doctor ----------------------------------------------------------------------------------------------------------


class TimeLimitExceeded(Exception):
    pass


def for_doctor() -> list[Result]:
    """What `doctor` shows. What needs tables is not checked without a database that has every migration."""
    results: list[Result] = []
    usable = True
    for check in CHECKS:
        if not check.in_doctor:
            continue
        if not usable:
            results.append(Result(check.name, False, "Not checked: correct the database first."))
        elif result := _limited(check):
            results.append(result)
            usable = result.healthy or check is not dependencies.database
    return results


def _limited(check: Check) -> Result | None:
    """The result; of what raises, only the type, or core.database_errors.describe."""
    try:
        with time_limit(TIME_LIMIT_S, TimeLimitExceeded):
            return check.result()
    except TimeLimitExceeded:
        with suppress(Exception):
            connection.close()
        detail = f"No answer within {TIME_LIMIT_S} s: see what it waits for, or restart it."
    except (DatabaseError, InterfaceError) as error:
        what = "Start it, or correct DATABASE_URL" if not settings.EMBEDDED else "Check CALLERID_DATA_DIR"
        if sqlstate(error) == "53300":
            what = "See pg_stat_activity, and docs/production.md, Requirements, for how many the service needs"
        detail = ". ".join(filter(None, [explain(error, ""), describe(error), what])) + "."
    except Exception as error:
        detail = f"The check failed ({type(error).__name__}): report this as a bug."
    return Result(check.name, False, detail)


# --- Alerts ----------------------------------------------------------------------------------------------------------


def for_alerts() -> tuple[int, int]:
    """Open and close incidents for the conditions that hold now; returns how many opened and closed.

    Checks with kinds of incidents read what all processes and hosts write to the database, so any host can run this.
    One that fails is logged, and the incidents of its kinds stay as they are.
    """
    now = timezone.now()
    conditions: list[Condition] = []
    failed: set[str] = set()
    checked = [check for check in CHECKS if check.kinds]
    for check in checked:
        try:
            conditions += [each for each in check.find(None) if isinstance(each, Condition)]
        except Exception:
            log.exception("alerts: the check of %s failed", ", ".join(check.kinds))
            failed.update(check.kinds)
    kinds = {kind: check.is_delayed for check in checked for kind in check.kinds if kind not in failed}
    changed = incidents.report(conditions=[each for each in conditions if each.kind in kinds], kinds=kinds, now=now)
    incidents.notify_later(now)
    task_runs.record(task_runs.ALERTS, succeeded=not failed)
    return changed
