"""The rate limit holds exactly in any window, in process and on Redis."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
import redis
from django.test import Client

from accounts import tokens
from accounts.models import ApiToken
from core import redis as core_redis
from lookup.rate_limit import TokenLog
from tests import awaited
from tests.api import Integrator
from tests.servers import RedisServer


@pytest.fixture
def in_process(settings: Any) -> None:
    settings.REDIS_URL = ""


@pytest.fixture
def on_redis(redis_server: RedisServer, settings: Any) -> RedisServer:
    """This process uses it."""
    settings.REDIS_URL = redis_server.url
    return redis_server


@pytest.fixture(params=["in_process", "on_redis"])
def log(request: pytest.FixtureRequest) -> TokenLog:
    request.getfixturevalue(request.param)
    return TokenLog()


def test_the_limit_is_reached_and_not_passed(log: TokenLog) -> None:
    decisions = [awaited.hit(log, 1, 3, 60) for _ in range(5)]
    assert [decision.allowed for decision in decisions] == [True, True, True, False, False]
    assert [decision.remaining for decision in decisions] == [2, 1, 0, 0, 0]
    assert all(0 < decision.wait_s <= 60 for decision in decisions)


@pytest.mark.usefixtures("in_process")
def test_the_wait_is_never_longer_than_the_window() -> None:
    now = 0.1
    log = TokenLog(clock=lambda: now)
    for step in range(1_000):
        now = 0.1 + step * 777.7  # among them many whose sum with the window, less themselves, is more than the window
        assert awaited.hit(log, 1, 1, 60).wait_s == 60


def test_tokens_do_not_share_a_window(log: TokenLog) -> None:
    assert awaited.hit(log, 1, 1, 60).allowed
    assert awaited.hit(log, 2, 1, 60).allowed
    assert not awaited.hit(log, 1, 1, 60).allowed


def test_a_refused_request_does_not_extend_the_wait(log: TokenLog) -> None:
    awaited.hit(log, 1, 1, 1)
    refused = [awaited.hit(log, 1, 1, 1) for _ in range(50)]
    assert not any(decision.allowed for decision in refused)
    time.sleep(refused[-1].wait_s)
    assert awaited.hit(log, 1, 1, 1).allowed


def test_any_window_holds_the_limit_whatever_its_edges(log: TokenLog) -> None:
    accepted: list[float] = []
    end = time.monotonic() + 2.5
    while (before := time.monotonic()) < end:
        if awaited.hit(log, 1, 5, 1).allowed:
            accepted.append((before + time.monotonic()) / 2)
        time.sleep(0.005)
    assert len(accepted) >= 10
    assert all(later - earlier >= 0.97 for earlier, later in zip(accepted, accepted[5:], strict=False))


def test_concurrent_requests_do_not_slip_through(log: TokenLog) -> None:
    barrier = threading.Barrier(16)

    def hammer(_: int) -> int:
        barrier.wait()
        return sum(awaited.hit(log, 1, 30, 60).allowed for _ in range(20))

    with ThreadPoolExecutor(16) as pool:
        assert sum(pool.map(hammer, range(16))) == 30


def test_a_lowered_limit_holds_at_once_and_its_wait_is_true(log: TokenLog) -> None:
    for _ in range(4):
        awaited.hit(log, 1, 4, 1)
        time.sleep(0.1)
    refused = awaited.hit(log, 1, 2, 1)
    assert (refused.allowed, refused.remaining) == (False, 0)
    time.sleep(refused.wait_s)
    assert awaited.hit(log, 1, 2, 1).allowed


@pytest.mark.usefixtures("in_process")
def test_idle_tokens_are_forgotten_and_no_others() -> None:
    now = 0.0
    log = TokenLog(clock=lambda: now)
    for token_id in range(1000):
        awaited.hit(log, token_id, 30, 60)
    assert awaited.hit(log, 1001, 1, 3600).allowed
    now = 61.0
    awaited.hit(log, 1, 30, 60)
    assert set(log._ends) == {1, 1001}
    assert not awaited.hit(log, 1001, 1, 3600).allowed


@pytest.mark.usefixtures("in_process")
def test_the_window_is_half_open() -> None:
    now = 0.0
    log = TokenLog(clock=lambda: now)
    assert awaited.hit(log, 1, 1, 60).allowed
    now = 59.999
    assert not awaited.hit(log, 1, 1, 60).allowed
    now = 60.0
    assert awaited.hit(log, 1, 1, 60).allowed


def test_a_request_that_redis_refuses_is_not_counted_here(on_redis: RedisServer) -> None:
    here, elsewhere = TokenLog(), TokenLog()
    for _ in range(2):
        assert awaited.hit(elsewhere, 1, 2, 60).allowed
    assert not awaited.hit(here, 1, 2, 60).allowed
    redis.Redis.from_url(on_redis.url).flushall()
    assert [awaited.hit(here, 1, 2, 60).allowed for _ in range(3)] == [True, True, False]


def test_redis_log_is_one_round_trip_and_never_evicted(on_redis: RedisServer) -> None:
    client = redis.Redis.from_url(on_redis.url)
    log = TokenLog()
    awaited.hit(log, 1, 30, 60)
    before = client.info("commandstats")
    awaited.hit(log, 1, 30, 60)
    after = client.info("commandstats")
    calls = {name: row["calls"] - before.get(name, {"calls": 0})["calls"] for name, row in after.items()}
    assert calls["cmdstat_evalsha"] == 1
    assert calls.get("cmdstat_script|load", 0) == 0
    assert [client.pttl(key) for key in ("callerid:rate:1", core_redis.LIMITS)] == [-1, -1]
    until_us = client.zscore(core_redis.LIMITS, "callerid:rate:1")
    assert until_us
    assert 59 < until_us / 1e6 - client.time()[0] <= 61


@pytest.mark.parametrize("live", [0, 2])
@pytest.mark.parametrize("expired", [0, 1, 2, 3, 1_023, 1_024, 5_000])
def test_expired_times_are_removed_in_few_commands(on_redis: RedisServer, expired: int, live: int) -> None:
    client = redis.Redis.from_url(on_redis.url)
    now_s = client.time()[0]
    times = [(now_s - age_s) * 1_000_000 for age_s, how_many in ((60, expired), (30, live)) for _ in range(how_many)]
    if times:
        client.rpush("callerid:rate:1", *times)
    client.config_resetstat()
    decision = awaited.hit(TokenLog(), 1, 6_000, 60)
    assert (decision.allowed, decision.remaining) == (True, 6_000 - live - 1)
    assert client.llen("callerid:rate:1") == live + 1
    statistics = client.info("commandstats")
    commands = ("lrange", "ltrim", "lindex", "lpop")
    assert sum(statistics.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in commands) < 40


def test_redis_log_survives_a_flushed_script_cache(on_redis: RedisServer) -> None:
    client = redis.Redis.from_url(on_redis.url)
    log = TokenLog()
    awaited.hit(log, 7, 30, 60)
    client.script_flush()
    assert awaited.hit(log, 7, 30, 60).allowed


def test_redis_log_recovers_when_the_clock_is_set_back(on_redis: RedisServer) -> None:
    client = redis.Redis.from_url(on_redis.url)
    client.rpush("callerid:rate:1", str((int(time.time()) + 3600) * 1_000_000))
    assert awaited.hit(TokenLog(), 1, 1, 60).allowed


@pytest.mark.parametrize("fault", ["stop", "pause"])
def test_without_redis_each_process_counts_alone_and_logs_it(
    on_redis: RedisServer, fault: str, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    settings.REDIS_TIMEOUT_S, settings.REDIS_RETRY_S = 0.5, 3
    log = TokenLog()
    try:
        assert awaited.hit(log, 1, 3, 60).remaining == 2
        getattr(on_redis, fault)()
        decisions = [awaited.hit(log, 1, 3, 60) for _ in range(3)]
        assert [decision.allowed for decision in decisions] == [True, True, False]  # it knows what it accepted before
        assert [record.levelname for record in caplog.records] == ["WARNING"]
        assert "Redis is unavailable" in caplog.text
    finally:
        on_redis.start() if fault == "stop" else on_redis.resume()
    time.sleep(3.05)
    awaited.hit(log, 2, 3, 60)
    assert "Redis is available again" in caplog.text


def test_an_error_of_one_key_is_no_outage(on_redis: RedisServer) -> None:
    client = redis.Redis.from_url(on_redis.url)
    client.set("callerid:rate:1", "not a list")
    log = TokenLog()
    assert [awaited.hit(log, 1, 1, 60).allowed for _ in range(2)] == [True, False]
    assert not core_redis.availability.unavailable


def test_redis_is_not_called_while_it_is_unavailable(on_redis: RedisServer) -> None:
    client = redis.Redis.from_url(on_redis.url)
    log = TokenLog()
    core_redis.availability.record_failure(redis.ConnectionError())
    before = client.info("stats")["total_commands_processed"]
    awaited.hit(log, 1, 30, 60)
    assert client.info("stats")["total_commands_processed"] == before + 1  # our own INFO


def test_every_response_to_a_valid_token_has_limit_headers(integrator: Integrator, settings: Any) -> None:
    settings.RATE_LIMIT = (3, 60)
    for query, status in (("4930231250", 200), ("x", 400), ("4930231250", 200), ("4930231250", 429)):
        response = integrator.search(query)
        assert response.status_code == status
        assert response.headers["RateLimit-Policy"] == '"token";q=3;w=60'
        assert response.headers["RateLimit"].startswith('"token";r=')
    assert response.headers["RateLimit"] == f'"token";r=0;t={response.headers["Retry-After"]}'


def limits(response: Any) -> tuple[int, str, str]:
    return response.status_code, response.headers["RateLimit-Policy"], response.headers["RateLimit"].rpartition(";")[0]


@pytest.mark.parametrize("store", ["in_process", "on_redis"])
@pytest.mark.parametrize("is_test", [False, True])
def test_a_token_has_exactly_its_own_limit(
    db: None, quiet_sources: None, request: pytest.FixtureRequest, settings: Any, store: str, is_test: bool
) -> None:
    request.getfixturevalue(store)
    settings.RATE_LIMIT, settings.TEST_RATE_LIMIT = ((2, 3600), (2, 60)) if is_test else ((2, 60), (2, 3600))
    own, other = Integrator(is_test=is_test), Integrator(is_test=is_test)
    ApiToken.objects.filter(pk=own.token.pk).update(rate_limit=4)
    policy = '"token";q=4;w=60'
    accepted = [(200, policy, f'"token";r={remaining}') for remaining in (3, 2, 1, 0)]
    assert [limits(own.search()) for _ in range(5)] == [*accepted, (429, policy, '"token";r=0')]
    assert [other.search().status_code for _ in range(3)] == [200, 200, 429]


@pytest.mark.parametrize("store", ["in_process", "on_redis"])
def test_an_edited_limit_holds_for_the_next_request(
    integrator: Integrator, admin_client: Client, request: pytest.FixtureRequest, settings: Any, store: str
) -> None:
    request.getfixturevalue(store)
    settings.RATE_LIMIT = (2, 60)
    url = f"/admin/accounts/apitoken/{integrator.token.pk}/edit/"

    def search_after(**edited: Any) -> tuple[int, str, str]:
        assert admin_client.post(url, {"name": "test", **edited}).status_code == 302
        return limits(integrator.search())

    assert [integrator.search().status_code for _ in range(3)] == [200, 200, 429]
    assert search_after(rate_limit=4) == (200, '"token";q=4;w=60', '"token";r=1')
    assert search_after(rate_limit=3) == (429, '"token";q=3;w=60', '"token";r=0')
    assert search_after(rate_limit=100_000) == (200, '"token";q=100000;w=60', '"token";r=99996')
    assert search_after(rate_limit="") == (429, '"token";q=2;w=60', '"token";r=0')


def test_a_rotated_token_keeps_its_own_limit(integrator: Integrator) -> None:
    ApiToken.objects.filter(pk=integrator.token.pk).update(rate_limit=7)
    integrator.key = tokens.rotate(token=integrator.token).api_key
    assert limits(integrator.search()) == (200, '"token";q=7;w=60', '"token";r=6')


def test_a_rotated_token_and_its_predecessor_share_one_window(integrator: Integrator, settings: Any) -> None:
    settings.RATE_LIMIT = (1, 60)
    assert integrator.search().status_code == 200
    integrator.key = tokens.rotate(token=integrator.token, grace=timedelta(minutes=1)).api_key
    assert integrator.search().status_code == 429
