"""What reads the list of all health checks: the dashboard and the command `doctor`."""

from collections.abc import Collection
from contextlib import suppress

from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection
from django.http import HttpRequest
from django.utils.module_loading import import_string

from core.database_errors import describe, explain, sqlstate
from core.time_limit import time_limit
from monitoring import hooks
from monitoring.health import dependencies, operations  # noqa: F401  (their checks, in this order)
from monitoring.health.registry import CHECKS, Check, Result

#: Of each check in `doctor`: commands have no time limits of their own.
TIME_LIMIT_S = 5


def all_checks() -> list[Check]:
    """With those of add-ons."""
    return [*CHECKS, *map(import_string, hooks.CHECKS)]


def for_dashboard(request: HttpRequest, reported: Collection[tuple[str, str]] = ()) -> list[Result]:
    """The results that the dashboard shows, now, without what is `reported` beside them. Raises
    DatabaseError if the database does not respond."""
    results = [check.result(request, reported) for check in all_checks() if check.on_dashboard]
    return [each for each in results if each]


# --- Doctor ----------------------------------------------------------------------------------------------------------


class TimeLimitExceeded(Exception):
    pass


def for_doctor() -> list[Result]:
    """What `doctor` shows. What needs tables is not checked without a database that has every migration."""
    results: list[Result] = []
    usable = True
    for check in all_checks():
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
