"""Alerts that serving processes open, update and close every few seconds (core.metrics): only they see the conditions.
The dashboard and `doctor` of every host show them."""

import socket
import time
from datetime import UTC, datetime, timedelta

from django.utils import timezone

from contrib.alerts import incidents
from core import metrics
from monitoring import clocks
from monitoring.health import forwarding
from monitoring.health.forwarding import UNREADABLE
from monitoring.health.registry import Condition, Effect

#: The kind of the alert about a host's clock; its subject is the host's name.
CLOCK = "clock.wrong"
#: An alert that no process has reported for so long ends: its host no longer serves, or the condition is over.
GONE = timedelta(minutes=5)


def start() -> None:
    metrics.sampler(report_clock)
    metrics.sampler(report_client_addresses)


def report_clock() -> None:
    """Open, update or close the alert about this host's clock. Raises django.db's errors."""
    if (ahead_s := clocks.database_ahead_s()) is None:
        return
    # By the database's clock, as the alert's times must be, since this host's may be wrong.
    now = datetime.fromtimestamp(time.time() + ahead_s, UTC)
    host, by_s = socket.gethostname(), abs(ahead_s)
    condition = Condition(
        kind=CLOCK,
        subject=host,
        title=f"The clock of {host} is wrong",
        summary=f"It is {by_s:,.1f} s {'behind' if ahead_s > 0 else 'ahead of'} the database's clock.",
        hint=clocks.ADVICE,
        effect=Effect.ALERT if by_s > clocks.MAX_DIFFERENCE_S else Effect.PASSING,
    )
    gone = incidents.current().filter(kind=CLOCK, last_seen_at__lt=now - GONE).values_list("subject", flat=True)
    incidents.report(
        conditions=[condition] if by_s > clocks.MAX_DIFFERENCE_S / 2 else [],
        kinds={CLOCK: False},
        now=now,
        subjects={host, *gone},
    )


def report_client_addresses() -> None:
    """Open, update or close the alert, which all processes report together. Raises django.db's errors."""
    now = timezone.now()
    seen = forwarding.monitor.is_unreadable()
    if seen or incidents.current().filter(kind=UNREADABLE.kind, last_seen_at__lt=now - GONE).exists():
        incidents.report(conditions=[UNREADABLE] if seen else [], kinds={UNREADABLE.kind: False}, now=now)
