"""A Redis that cached answers have filled keeps every limit, and `doctor` and the log warn of one that would not."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis
from django.conf import settings

from core import loop
from core import redis as core_redis
from core.attempt_limits import RedisOrLocalCache
from lookup.answers import Found
from lookup.rate_limit import TokenLog
from lookup.vendors.cache import AnswerCache
from monitoring.health.redis_check import CHECK
from tests import awaited
from tests.plugin import ROOT
from tests.servers import RedisServer, required
from tests.service import Service

pytestmark = [pytest.mark.once, pytest.mark.slow]

ANSWER = Found(name="Musterhaus Advisors", location="Berlin")
TOKENS, LIMIT = 50, 30


class ShippedRedis(RedisServer):
    """With deploy/redis/redis.conf, but little memory."""

    def command(self) -> list[str]:
        binary, *options = super().command()
        conf = (ROOT / "deploy" / "redis" / "redis.conf").read_text()
        assert "maxmemory 512mb" in conf
        (self.directory / "redis.conf").write_text(conf.replace("maxmemory 512mb", "maxmemory 4mb"))
        return [binary, str(self.directory / "redis.conf"), *options]


@pytest.fixture
def server(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[redis.Redis]:
    """This process uses it."""
    with required():
        shipped = ShippedRedis().start()
    settings.REDIS_URL = shipped.url
    monkeypatch.setattr(core_redis, "availability", core_redis.Availability())
    awaited.disconnect_from_redis()
    yield redis.Redis.from_url(shipped.url, decode_responses=True)
    awaited.disconnect_from_redis()
    shipped.close()


def accepted(server: redis.Redis, requests: int) -> list[int]:
    """How many requests of each token a process that has just started accepts."""
    log = TokenLog()
    return [sum(awaited.hit(log, token, LIMIT, 3600).allowed for _ in range(requests)) for token in range(TOKENS)]


def fill(server: redis.Redis) -> None:
    """Cache answers, most of them for longer than any window and some for less, until thousands were evicted."""
    cache, number = AnswerCache(), 0

    async def put(numbers: range) -> None:
        for n in numbers:
            cache.put(f"callerid:answer:{n:064}", ANSWER, 2 if n % 3 else 86_400)
        await cache.flush()

    while server.info("stats")["evicted_keys"] < 20_000:
        loop.run(put(range(number, number + 1_000)))  # one write each, which waits for further answers
        number += 1_000
    assert not core_redis.availability.unavailable


def test_cached_answers_evict_no_limit(server: redis.Redis) -> None:
    attempts = RedisOrLocalCache(settings.REDIS_URL, {})
    assert accepted(server, 20) == [20] * TOKENS
    assert attempts.add("address", 1, 60)
    assert [attempts.incr("address") for _ in range(3)] == [2, 3, 4]
    fill(server)
    assert accepted(server, 20) == [LIMIT - 20] * TOKENS
    assert attempts.incr("address") == 5
    assert server.dbsize() > TOKENS + 2  # and answers are still cached


def test_limits_that_are_not_needed_are_deleted(server: redis.Redis) -> None:
    log, attempts = TokenLog(), RedisOrLocalCache(settings.REDIS_URL, {})
    for token in range(10):
        awaited.hit(log, token, LIMIT, 60)
        attempts.add(f"address {token}", 1, 60)
    assert server.zcard(core_redis.LIMITS) == server.dbsize() - 1 == 20
    for key in server.scan_iter():
        server.zadd(core_redis.LIMITS, {str(key): 1}, xx=True)  # its window has ended
    for token in range(100, 120):
        awaited.hit(log, token, LIMIT, 60)
    assert sorted(server.scan_iter("callerid:rate:*")) == sorted(f"callerid:rate:{token}" for token in range(100, 120))
    assert server.zcard(core_redis.LIMITS) == server.dbsize() - 1 == 20


@pytest.mark.parametrize(
    ("policy", "maxmemory", "problem"),
    [
        ("volatile-lru", "4mb", None),
        ("volatile-ttl", "4mb", None),
        ("noeviction", "0", None),
        ("noeviction", "4mb", "maxmemory-policy is noeviction: when cached answers have filled the memory"),
        ("allkeys-lru", "4mb", "maxmemory-policy is allkeys-lru: Redis may evict rate limits"),
        ("allkeys-lfu", "0", "maxmemory-policy is allkeys-lfu: Redis may evict rate limits"),
    ],
)
def test_an_unsuitable_policy_is_reported(
    server: redis.Redis, policy: str, maxmemory: str, problem: str | None
) -> None:
    server.config_set("maxmemory-policy", policy)
    server.config_set("maxmemory", maxmemory)
    check = CHECK.result()
    assert check is not None
    assert check.healthy is (problem is None)
    assert check.detail.startswith(problem or "Reachable;")


def test_log_and_doctor_warn_of_an_unsuitable_policy(serve: Callable[..., Service], server: redis.Redis) -> None:
    server.config_set("maxmemory-policy", "allkeys-lru")
    service = serve(REDIS_URL=settings.REDIS_URL)
    warning = "maxmemory-policy is allkeys-lru: Redis may evict rate limits"
    assert f"Redis: {warning}" in service.log()
    doctor = service.run_command("doctor", "--json")
    found = {check["name"]: check for check in json.loads(doctor.stdout)["checks"]}["Redis"]
    assert found["detail"].startswith(warning)
    assert (found["ok"], doctor.returncode) == (False, 1)
