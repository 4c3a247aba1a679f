"""Detects a TRUSTED_PROXIES that does not match the proxies in front, and proxies that write what cannot be read: the
rate limits per address depend on both."""

import logging
from datetime import datetime, timedelta

from django.conf import settings
from django.http import HttpRequest
from django.utils import timezone

from core.client_address import UNKNOWN_ADDRESS, client_address
from monitoring.health.registry import Condition

log = logging.getLogger(__name__)

#: The condition ends when no such header was received for so long.
GONE = timedelta(minutes=10)
UNREADABLE = Condition(
    kind="client_address.unreadable",
    subject="",
    title="Client addresses cannot be read",
    summary="What a trusted proxy writes into X-Forwarded-For is no address, or it sends only Forwarded. All such "
    "clients share one limit.",
    hint="Have it append the client's address, or correct TRUSTED_PROXIES (docs/proxy.md).",
)


class ForwardingMonitor:
    """What this process has received. `untrusted`: a forwarding header while TRUSTED_PROXIES is 0. `unreadable_at`:
    when the last one came that says no address of the client."""

    untrusted = False
    unreadable_at: datetime | None = None

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
            if self.unreadable_at is None:
                log.warning("%s. %s %s", UNREADABLE.title, UNREADABLE.summary, UNREADABLE.hint)
            self.unreadable_at = timezone.now()

    def is_unreadable(self) -> bool:
        """Whether UNREADABLE holds for this process."""
        return self.unreadable_at is not None and self.unreadable_at > timezone.now() - GONE


monitor = ForwardingMonitor()
