"""Slows guessing down: attempts are counted per client address (IPv6: its /64), or by another key, by django-ratelimit.

Of tokens those that failed only, so that a neighbour's never refuse a valid token; of logins each.
"""

import ipaddress
import unicodedata
from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.core.cache import caches
from django.core.cache.backends.base import BaseCache
from django.http import HttpRequest
from django_ratelimit.core import get_usage

from accounts import shared_store

LONGEST_WINDOW_S = 3600
MAX_USER_NAME = 150
UNKNOWN_ADDRESS = "0.0.0.0"  # noqa: S104  (nobody binds to it: one bucket for peers without an address)


class TooManyAttempts(Exception):
    """Too many from this address, or for this user name; `wait_s` whole seconds until its window ends."""

    def __init__(self, wait_s: int) -> None:
        super().__init__(wait_s)
        self.wait_s = wait_s


def count_attempt(
    request: HttpRequest,
    *,
    group: str,
    rate: tuple[int, int],
    key: str | Callable[[str, HttpRequest], str] = "ip",
) -> None:
    """Count one attempt of this client, or of what django-ratelimit's `key` says; `rate`: how many in how many seconds.

    Raises TooManyAttempts beyond it. Only a hash of the key is kept."""
    usage = get_usage(request, group=group, key=key, rate=rate, increment=True)
    if usage is not None and usage["should_limit"]:
        raise TooManyAttempts(max(1, usage["time_left"]))


def user_name(group: str, request: HttpRequest) -> str:
    """A key for logins: the posted `username`, alike for all spellings that Django takes for one user (NFKC, without
    spaces around it), and for capitals too, which a database may not tell apart."""
    # Cut before it is normalised, which takes long where a text is: Django has no longer names.
    name = request.POST.get("username", "").strip()[:MAX_USER_NAME]
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold()).strip()


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
