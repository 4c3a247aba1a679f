"""Failed authentications are limited per address; a neighbour's failures never refuse a valid token."""

from typing import Any

import pytest
import redis
from django.core.cache import caches
from django.test import RequestFactory

from core import redis as core_redis
from core.client_address import UNKNOWN_ADDRESS, client_address
from tests import metrics
from tests.api import NUMBER, Integrator
from tests.connectors import Knows
from tests.servers import RedisServer


def guess(integrator: Integrator, **meta: Any) -> Any:
    return integrator.client.generic(
        "POST", "/callerid/search", b'{"api_key": "guess", "query": "x"}', content_type="application/json", **meta
    )


def test_failures_beyond_the_rate_get_429_and_retry_after(integrator: Integrator, settings: Any) -> None:
    settings.AUTH_FAILURE_RATE = (3, 3600)
    assert [guess(integrator).status_code for _ in range(5)] == [401, 401, 401, 429, 429]
    limited = guess(integrator)
    assert limited.json() == {"detail": "Rate limit exceeded"}
    assert 1 <= int(limited.headers["Retry-After"]) <= 3600
    assert "RateLimit" not in limited.headers
    assert Knows.calls == []
    assert integrator.search().status_code == 200  # a valid token from the same address


def test_only_failed_authentications_count(integrator: Integrator, settings: Any) -> None:
    settings.AUTH_FAILURE_RATE = (1, 3600)
    for _ in range(3):
        integrator.post(b"malformed")
        integrator.post(b"{}", "text/plain")
        integrator.search("not a number")
        integrator.search()
    assert guess(integrator).status_code == 401


@pytest.mark.parametrize(
    ("first", "second", "status"),
    [
        ("192.0.2.1", {"REMOTE_ADDR": "192.0.2.2"}, 401),
        ("2001:db8:0:1::1", {"REMOTE_ADDR": "2001:db8:0:1:ffff::2"}, 429),  # a /64 is one client
        ("2001:db8:0:1::1", {"REMOTE_ADDR": "2001:db8:0:2::1"}, 401),
        # Without trusted proxies a forwarded address is ignored.
        *(("192.0.2.1", {"HTTP_X_FORWARDED_FOR": spoofed}, 429) for spoofed in ("203.0.113.9", "junk", "", ",")),
    ],
)
def test_each_address_is_counted_by_itself(
    integrator: Integrator, settings: Any, first: str, second: dict[str, str], status: int
) -> None:
    settings.AUTH_FAILURE_RATE = (1, 3600)
    assert guess(integrator, REMOTE_ADDR=first, HTTP_X_FORWARDED_FOR="198.51.100.1").status_code == 401
    assert guess(integrator, **{"REMOTE_ADDR": first, **second}).status_code == status


@pytest.mark.parametrize(
    ("proxies", "peer", "forwarded", "address"),
    [
        (0, "192.0.2.1", "198.51.100.1", "192.0.2.1"),
        (1, "192.0.2.1", "198.51.100.1", "198.51.100.1"),
        (1, "192.0.2.1", "203.0.113.66, 198.51.100.1", "198.51.100.1"),
        (2, "192.0.2.1", "203.0.113.66, 198.51.100.1, 192.0.2.2", "198.51.100.1"),
        (2, "192.0.2.1", "198.51.100.1", "198.51.100.1"),
        (2, "192.0.2.1", "203.0.113.66, 198.51.100.1, unknown", "198.51.100.1"),
        (3, "192.0.2.1", "junk, 192.0.2.2", UNKNOWN_ADDRESS),
        (1, "192.0.2.1", "junk", UNKNOWN_ADDRESS),
        (1, "192.0.2.1", "", "192.0.2.1"),
        (1, "192.0.2.1", " , ", "192.0.2.1"),
        (1, "", "198.51.100.1", "198.51.100.1"),
        (0, "", "198.51.100.1", UNKNOWN_ADDRESS),
        (0, "::ffff:192.0.2.1", "", "192.0.2.1"),
        (1, "::1", "2001:db8::1", "2001:db8::1"),
        (1, "192.0.2.1", "9" * 10_000, UNKNOWN_ADDRESS),
    ],
)
def test_only_trusted_hops_set_the_client_address(
    settings: Any, proxies: int, peer: str, forwarded: str, address: str
) -> None:
    settings.TRUSTED_PROXIES = proxies
    request = RequestFactory().get("/", REMOTE_ADDR=peer, HTTP_X_FORWARDED_FOR=forwarded)
    assert client_address(request) == address


@pytest.fixture
def shared_cache(redis_server: RedisServer, settings: Any) -> Any:
    settings.REDIS_URL = redis_server.url
    settings.CACHES = {**settings.CACHES, "rate_limits": {"BACKEND": "core.attempt_limits.RedisOrLocalCache"}}
    return caches["rate_limits"]


def test_redis_counters_are_integers_until_their_timeout(shared_cache: Any, redis_server: RedisServer) -> None:
    client = redis.Redis.from_url(redis_server.url, decode_responses=True)
    client.flushdb()
    assert shared_cache.add("k", 1, 60)
    assert not shared_cache.add("k", 1, 60)
    assert shared_cache.incr("k") == 2
    assert shared_cache.get("k") == 2
    (key,) = [key for key in client.scan_iter() if key != core_redis.LIMITS]
    assert (client.get(key), client.ttl(key)) == ("2", -1)
    until_us = client.zscore(core_redis.LIMITS, key)
    assert until_us
    assert 0 < until_us / 1e6 - client.time()[0] <= 61


def test_failures_are_limited_without_redis(
    integrator: Integrator, shared_cache: Any, redis_server: RedisServer, settings: Any
) -> None:
    settings.AUTH_FAILURE_RATE = (2, 3600)
    redis_server.stop()
    counted = metrics.here().of("callerid_rate_limit_fallbacks_total", limit="attempts")
    try:
        assert [guess(integrator).status_code for _ in range(4)] == [401, 401, 429, 429]
        assert metrics.here().of("callerid_rate_limit_fallbacks_total", limit="attempts") == counted + 4
        assert integrator.search(NUMBER).status_code == 200
    finally:
        redis_server.start()
