"""Slows guessing down: failed authentications are counted per client address (IPv6: its /64) by django-ratelimit.

Called after a failure only, so that a neighbour's failures never refuse a valid token.
"""

import ipaddress
from typing import Any

from django.conf import settings
from django.core.cache import caches
from django.core.cache.backends.base import BaseCache
from django.http import HttpRequest
from django_ratelimit.core import get_usage

from accounts import shared_store

LONGEST_WINDOW_S = 3600
UNKNOWN_ADDRESS = "0.0.0.0"  # noqa: S104  (nobody binds to it: one bucket for peers without an address)


class TooManyFailures(Exception):
    """This address has failed too often; `wait_s` whole seconds until its window ends."""

    def __init__(self, wait_s: int) -> None:
        super().__init__(wait_s)
        self.wait_s = wait_s


def count_failure(request: HttpRequest, *, group: str, rate: tuple[int, int]) -> None:
    """Count one failure of this client; `rate`: how many in how many seconds. Raises TooManyFailures beyond it."""
    usage = get_usage(request, group=group, key="ip", rate=rate, increment=True)
    if usage is not None and usage["should_limit"]:
        raise TooManyFailures(max(1, usage["time_left"]))


def client_address(request: HttpRequest) -> str:
    """The client's IP address: the connected peer, or what the nearest TRUSTED_PROXIES hops say of it.

    Each trusted proxy appends the peer that it saw to `X-Forwarded-For`; only that many entries, from the right, are
    believed, and reading stops at the first that is no address. django-ratelimit calls this (RATELIMIT_IP_META_KEY)
    and cuts IPv6 to its /64.
    """
    address = _parsed(request.META.get("REMOTE_ADDR", ""))
    hops = request.META.get("HTTP_X_FORWARDED_FOR", "").split(",")
    for hop in list(reversed(hops))[: settings.TRUSTED_PROXIES]:
        if (believed := _parsed(hop.strip())) is None:
            break
        address = believed
    return address or UNKNOWN_ADDRESS


def _parsed(text: str) -> str | None:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(address).partition("%")[0]


class RedisOrLocalCache(BaseCache):
    """The three operations that django-ratelimit needs, on the shared Redis, or in this process while that is away.

    Django's own Redis cache would pickle what is not an integer, and raise when Redis is away.
    """

    def __init__(self, location: str, params: dict[str, Any]) -> None:
        super().__init__(params)
        self._client = shared_store.client(location)

    def add(self, key: str, value: int, timeout: float | None = None, version: int | None = None) -> bool:
        name, seconds = self.make_key(key, version), int(timeout or LONGEST_WINDOW_S)
        return bool(self._ask("add", key, value, seconds, ask=lambda c: c.set(name, value, nx=True, ex=seconds)))

    def incr(self, key: str, delta: int = 1, version: int | None = None) -> int:
        name = self.make_key(key, version)
        return int(self._ask("incr", key, delta, ask=lambda c: c.incrby(name, delta)))

    def get(self, key: str, default: Any = None, version: int | None = None) -> Any:
        value = self._ask("get", key, ask=lambda c: c.get(self.make_key(key, version)))
        return default if value is None else int(value)

    def _ask(self, operation: str, key: str, *args: Any, ask: Any) -> Any:
        try:
            return shared_store.ask(lambda: ask(self._client))
        except shared_store.Away:
            local = caches["brake_local"]
            if operation == "incr":  # Redis went away between `add` and `incr`: the local counter starts here
                local.add(key, 0, LONGEST_WINDOW_S)
            return getattr(local, operation)(key, *args)
