"""Whether the clocks of the hosts agree with the database's: tokens expire by the host's clock.

Each serving process compares its host's clock every few seconds (core.metrics). A host whose clock differs opens an
alert, which the dashboard and `doctor` of every host show.
"""

import socket
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from django.conf import settings

from core import db, metrics, redis
from monitoring import incidents
from monitoring.incidents import Condition, Severity

#: The kind of the alert; its subject is the host's name.
KIND = "clock.wrong"
#: Claims of idempotency keys expire by the database's clock, rate limits by Redis's, tokens by the host's.
MAX_DIFFERENCE_S = 1.0
#: The alert of a host that has not reported for so long ends: it no longer serves.
GONE = timedelta(minutes=5)
ADVICE = "Synchronize all hosts by NTP."


@metrics.sampler
def report() -> None:
    """Open, update or close the alert about this host's clock. Raises django.db's errors."""
    if (database_ahead_s := differences_s().get("PostgreSQL")) is None:
        return
    # By the database's clock, as the alert's times must be, since this host's may be wrong.
    now = datetime.fromtimestamp(time.time() + database_ahead_s, UTC)
    host, by_s = socket.gethostname(), abs(database_ahead_s)
    condition = Condition(
        kind=KIND,
        subject=host,
        title=f"The clock of {host} is wrong",
        summary=f"It is {by_s:,.1f} s {'behind' if database_ahead_s > 0 else 'ahead of'} the database's clock.",
        hint=ADVICE,
        severity=Severity.ALERT if by_s > MAX_DIFFERENCE_S else Severity.PASSING,
    )
    gone = incidents.current().filter(kind=KIND, last_seen_at__lt=now - GONE).values_list("subject", flat=True)
    incidents.report(
        conditions=[condition] if by_s > MAX_DIFFERENCE_S / 2 else [],
        kinds={KIND: False},
        now=now,
        subjects={host, *gone},
    )


def differences_s() -> dict[str, float]:
    """By server, how far its clock is ahead of this host's: PostgreSQL and Redis, where they are used and respond.
    Raises django.db's errors."""
    found: dict[str, float] = {}
    if db.VENDOR == "postgresql":
        found["PostgreSQL"] = _difference_s(_database_time)
    if settings.REDIS_URL:
        with suppress(redis.RedisUnavailable):
            found["Redis"] = redis.call(lambda: _difference_s(_redis_time))
    return found


def _database_time() -> float:
    """PostgreSQL's UNIX time."""
    return float(db.fetch_one("SELECT extract(epoch FROM clock_timestamp())")[0])


def _redis_time() -> float:
    """Redis's UNIX time."""
    seconds, microseconds = redis.client(settings.REDIS_URL).time()
    return float(seconds + microseconds / 1e6)


def _difference_s(read: Callable[[], float]) -> float:
    """How far the clock that `read` returns is ahead of this host's, beyond what the round trip explains."""
    read()  # connects
    before = time.time()
    other = read()
    after = time.time()
    if before <= other <= after:
        return 0.0
    return other - after if other > after else other - before
