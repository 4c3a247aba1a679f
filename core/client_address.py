"""The client address, of which proxies tell."""

import ipaddress
from functools import lru_cache

from django.conf import settings
from django.http import HttpRequest

UNKNOWN_ADDRESS = "0.0.0.0"  # noqa: S104  (nobody binds to it: all clients without a readable address share it)
#: No entry of X-Forwarded-For is longer: an IPv6 address with zone, brackets, port and quotation marks.
MAX_ENTRY = 100


def client_address(request: HttpRequest) -> str:
    """The client's IP address: the connected peer's, or what the outermost of TRUSTED_PROXIES hops reports.

    Each trusted proxy appends the peer that it saw to `X-Forwarded-For`, so that many entries from the right are
    trusted; what stands before them, the client sent itself. UNKNOWN_ADDRESS if that entry cannot be read, never the
    proxy's own address (monitoring.health.forwarding reports it). django-ratelimit calls this (RATELIMIT_IP_META_KEY)
    and reduces IPv6 to its /64.
    """
    count = settings.TRUSTED_PROXIES
    if not count:
        return _parse(request.META.get("REMOTE_ADDR", "")) or UNKNOWN_ADDRESS
    entries = request.META.get("HTTP_X_FORWARDED_FOR", "").rsplit(",", count)[-count:]
    reported = next((entry for entry in map(str.strip, entries) if entry), None)
    if reported is None and "HTTP_FORWARDED" not in request.META:
        reported = request.META.get("REMOTE_ADDR", "")
    return _parse((reported or "")[:MAX_ENTRY]) or UNKNOWN_ADDRESS


@lru_cache(maxsize=1024)
def _parse(text: str) -> str | None:
    """The address in what proxies write: with a port (`192.0.2.1:51001`, `[2001:db8::1]:443`), in brackets, quotation
    marks or with a zone; IPv4-mapped IPv6 as IPv4. None if it is none: `unknown`, `_hidden` (RFC 7239), a name."""
    host = text.strip('"')
    if host.startswith("["):
        host = host[1:].partition("]")[0]
    elif host.count(":") == 1:
        host = host.partition(":")[0]
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)
