"""Detects a TRUSTED_PROXIES that does not match the proxies in front: the rate limits per address depend on it."""

import logging

from django.conf import settings
from django.http import HttpRequest

log = logging.getLogger(__name__)


class ForwardingMonitor:
    """`seen`: whether this process has received a forwarding header while TRUSTED_PROXIES is 0."""

    seen = False

    def observe(self, request: HttpRequest) -> None:
        """Log a warning at the first forwarding header, once per process."""
        if self.seen or settings.TRUSTED_PROXIES > 0:
            return
        if "HTTP_X_FORWARDED_FOR" in request.META or "HTTP_FORWARDED" in request.META:
            self.seen = True
            log.warning(
                "X-Forwarded-For or Forwarded received but TRUSTED_PROXIES is 0: behind a proxy all clients share "
                "the limits of its address; set TRUSTED_PROXIES to the number of proxies"
            )


monitor = ForwardingMonitor()
