"""Detects a TRUSTED_PROXIES that does not match the proxies in front, and proxies that write what cannot be read: the
rate limits per address depend on both."""

import logging
from datetime import timedelta

from django.conf import settings
from django.http import HttpRequest
from django.utils import timezone

from core import metrics
from core.throttling import UNKNOWN_ADDRESS, client_address
from monitoring import incidents
from monitoring.incidents import Condition

log = logging.getLogger(__name__)

#: The kind of the alert, which all processes report together.
KIND = "client_address.unreadable"
#: It ends when no process has received such a header for so long.
GONE = timedelta(minutes=10)
UNREADABLE = Condition(
    kind=KIND,
    subject="",
    title="Client addresses cannot be read",
    summary="What a trusted proxy writes into X-Forwarded-For is no address, or it sends only Forwarded. All such "
    "clients share one limit.",
    hint="Have it append the client's address, or correct TRUSTED_PROXIES (docs/proxy.md).",
)


class ForwardingMonitor:
    """What this process has received. `untrusted`: a forwarding header while TRUSTED_PROXIES is 0. `unreadable`: one
    that says no address of the client, since the last `report`."""

    untrusted = False
    unreadable = False
    _unreadable_logged = False

    def observe(self, request: HttpRequest) -> None:
        """Log a warning at the first forwarding header of each kind, once per process."""
        if "HTTP_X_FORWARDED_FOR" not in request.META and "HTTP_FORWARDED" not in request.META:
            return
        if settings.TRUSTED_PROXIES == 0:
            if not self.untrusted:
                self.untrusted = True
                log.warning(
                    "X-Forwarded-For or Forwarded received but TRUSTED_PROXIES is 0: behind a proxy all clients share "
                    "the limits of its address; set TRUSTED_PROXIES to the number of proxies"
                )
        elif client_address(request) == UNKNOWN_ADDRESS:
            self.unreadable = True
            if not self._unreadable_logged:
                self._unreadable_logged = True
                log.warning("%s. %s %s", UNREADABLE.title, UNREADABLE.summary, UNREADABLE.hint)


monitor = ForwardingMonitor()


@metrics.sampler
def report() -> None:
    """Open, update or close the alert. Raises django.db's errors."""
    conditions, monitor.unreadable = [UNREADABLE] if monitor.unreadable else [], False
    now = timezone.now()
    if conditions or incidents.current().filter(kind=KIND, last_seen_at__lt=now - GONE).exists():
        incidents.report(conditions=conditions, kinds={KIND: False}, now=now)
