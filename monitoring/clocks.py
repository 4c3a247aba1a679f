"""Whether the clocks of the hosts agree with the database's: tokens expire by the host's clock.

Each serving process compares its host's clock every few seconds (core.metrics). A host whose clock differs opens an
alert, which the dashboard and `doctor` of every host show.
"""

import socket
import time
from datetime import UTC, datetime, timedelta

from core import db, metrics
from monitoring import incidents
from monitoring.incidents import Condition, Effect

#: The kind of the alert; its subject is the host's name.
KIND = "clock.wrong"
#: Claims of idempotency keys expire by the database's clock, tokens by the host's.
MAX_DIFFERENCE_S = 1.0
#: The alert of a host that has not reported for so long ends: it no longer serves.
GONE = timedelta(minutes=5)
ADVICE = "Synchronize all hosts by NTP."


@metrics.sampler
def report() -> None:
    """Open, update or close the alert about this host's clock. Raises django.db's errors."""
    if (ahead_s := database_ahead_s()) is None:
        return
    # By the database's clock, as the alert's times must be, since this host's may be wrong.
    now = datetime.fromtimestamp(time.time() + ahead_s, UTC)
    host, by_s = socket.gethostname(), abs(ahead_s)
    condition = Condition(
        kind=KIND,
        subject=host,
        title=f"The clock of {host} is wrong",
        summary=f"It is {by_s:,.1f} s {'behind' if ahead_s > 0 else 'ahead of'} the database's clock.",
        hint=ADVICE,
        effect=Effect.ALERT if by_s > MAX_DIFFERENCE_S else Effect.PASSING,
    )
    gone = incidents.current().filter(kind=KIND, last_seen_at__lt=now - GONE).values_list("subject", flat=True)
    incidents.report(
        conditions=[condition] if by_s > MAX_DIFFERENCE_S / 2 else [],
        kinds={KIND: False},
        now=now,
        subjects={host, *gone},
    )


def database_ahead_s() -> float | None:
    """How far PostgreSQL's clock is ahead of this host's, beyond what the round trip explains; None on SQLite, which
    has none. Raises django.db's errors."""
    if db.VENDOR == "sqlite":
        return None
    _database_time()  # connects
    before = time.time()
    database = _database_time()
    after = time.time()
    return database - min(max(database, before), after)


def _database_time() -> float:
    """PostgreSQL's UNIX time."""
    return float(db.fetch_one("SELECT extract(epoch FROM clock_timestamp())")[0])
