"""Detects a TRUSTED_PROXIES that does not match the proxies in front: the rate limits per address depend on it."""

import logging

from django.conf import settings
from django.core.cache import caches
from django.http import HttpRequest

log = logging.getLogger(__name__)

_CACHE_KEY = "forwarding-header-while-TRUSTED_PROXIES-is-0"
_CACHED_FOR_S = 24 * 3600


class ForwardingMonitor:
    """Records that a forwarding header arrived while TRUSTED_PROXIES is 0.

    In this process until it ends, and for the dashboards of other processes for a day in the cache of the rate limits,
    which is on Redis if there are several.
    """

    def __init__(self) -> None:
        self._seen_here = False

    def observe(self, request: HttpRequest) -> None:
        """Log a warning at the first forwarding header, once per process."""
        if self._seen_here or settings.TRUSTED_PROXIES > 0:
            return
        if "HTTP_X_FORWARDED_FOR" in request.META or "HTTP_FORWARDED" in request.META:
            self._seen_here = True
            log.warning(
                "X-Forwarded-For or Forwarded received but TRUSTED_PROXIES is 0: behind a proxy all clients share "
                "the limits of its address; set TRUSTED_PROXIES to the number of proxies"
            )
            caches["rate_limits"].add(_CACHE_KEY, 1, _CACHED_FOR_S)

    def seen(self) -> bool:
        return self._seen_here or bool(caches["rate_limits"].get(_CACHE_KEY))


monitor = ForwardingMonitor()
