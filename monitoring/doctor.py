"""What the command `doctor` does: all health checks, one after the other, each within a time limit."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection
from django.utils import timezone

from core.database_errors import describe
from monitoring.health import base, checks
from monitoring.health.base import Check, Context, Result

TIME_LIMIT_S = 5


class TimeLimitExceeded(Exception):
    pass


def run() -> list[Result]:
    """All results, in order. What needs tables is not checked without a database that has every migration."""
    results: list[Result] = []
    usable = True
    for check in checks.CHECKS:
        if not check.in_doctor:
            continue
        if check.needs_tables and not usable:
            results.append(Result(check.name, False, "Not checked: correct the database first."))
        elif result := _checked(check):
            results.append(result)
            usable = usable and (result.healthy or check.name != "Database")
    return results


def _checked(check: Check) -> Result | None:
    """The result; of what raises, only the type, or core.database_errors.describe."""
    try:
        with _time_limit():
            return base.result(check, Context(timezone.now()))
    except TimeLimitExceeded:
        with suppress(Exception):
            connection.close()
        detail = f"No answer within {TIME_LIMIT_S} s: see what it waits for, or restart it."
    except (DatabaseError, InterfaceError) as error:
        what = "Start it, or correct DATABASE_URL" if not settings.EMBEDDED else "Check CALLERID_DATA_DIR"
        detail = f"{describe(error)}. {what}."
    except Exception as error:
        detail = f"The check failed ({type(error).__name__}): report this as a bug."
    return Result(check.name, False, detail)


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
