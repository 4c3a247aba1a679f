"""Detects a TRUSTED_PROXIES that does not fit the proxies in front: the limits per address depend on it."""

import logging

from django.conf import settings
from django.core.cache import caches
from django.http import HttpRequest

log = logging.getLogger(__name__)

_SHARED_KEY = "forwarding-header-while-TRUSTED_PROXIES-is-0"
_SHARED_FOR_S = 24 * 3600


class ForwardingMonitor:
    """Remembers that a forwarding header arrived while TRUSTED_PROXIES is 0.

    A process remembers its first one until it ends. For the dashboards of other processes it is also kept for a day in
    the cache that shares the limits: on Redis, or in the process where there is only one.
    """

    def __init__(self) -> None:
        self._seen_here = False

    def observe(self, request: HttpRequest) -> None:
        """Log a warning at the first forwarding header, once in each process."""
        if self._seen_here or settings.TRUSTED_PROXIES > 0:
            return
        if "HTTP_X_FORWARDED_FOR" in request.META or "HTTP_FORWARDED" in request.META:
            self._seen_here = True
            log.warning(
                "X-Forwarded-For or Forwarded received but TRUSTED_PROXIES is 0: behind a proxy all clients share "
                "the limits of its address; set TRUSTED_PROXIES to the number of proxies"
            )
            caches["brake"].add(_SHARED_KEY, 1, _SHARED_FOR_S)

    def seen(self) -> bool:
        return self._seen_here or bool(caches["brake"].get(_SHARED_KEY))


monitor = ForwardingMonitor()


def forwarded_hops(request: HttpRequest) -> int:
    """How many addresses stand in the request's X-Forwarded-For."""
    return len([hop for hop in request.META.get("HTTP_X_FORWARDED_FOR", "").split(",") if hop.strip()])
