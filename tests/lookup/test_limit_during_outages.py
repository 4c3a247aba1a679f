"""The rate limit while Redis fails: no error, and each process accepts at most the limit in any window."""

import json
import random
import subprocess
import sys
import time
from typing import Any

import pytest
import redis

from core import redis as core_redis
from lookup import rate_limit
from tests import awaited
from tests.api import Integrator
from tests.plugin import ROOT
from tests.servers import RedisServer

pytestmark = [pytest.mark.once, pytest.mark.slow, pytest.mark.reliability]

LIMIT, WINDOW_S, PROCESSES = 5, 1, 2
#: Prints when each accepted request was sent and answered, by a clock that all processes share.
HAMMER = """
import json, sys, threading, time
import django
django.setup()
from core import loop
from lookup.rate_limit import TokenLog
log, limit, window_s, accepted = TokenLog(), int(sys.argv[1]), int(sys.argv[2]), []
stopped = threading.Event()
def hammer():
    while not stopped.is_set():
        sent = time.monotonic()
        if loop.run(log.hit(1, limit, window_s)).allowed:
            accepted.append((sent, time.monotonic()))
        time.sleep(0.002)
threads = [threading.Thread(target=hammer) for _ in range(3)]
[thread.start() for thread in threads]
print("started", flush=True)
sys.stdin.readline()
stopped.set()
[thread.join() for thread in threads]
print(json.dumps(accepted))
"""


def test_no_window_holds_more_than_each_process_may(redis_server: RedisServer, tmp_path: Any) -> None:
    """Over kills, restarts, stalls and losses of data, in an order that the seed determines."""
    environment = {
        "DJANGO_SETTINGS_MODULE": "tests.lookup.impatient_settings",
        "CALLERID_DATA_DIR": str(tmp_path),
        "REDIS_URL": redis_server.url,
        "PATH": "",
    }
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", HAMMER, str(LIMIT), str(WINDOW_S)],
            cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for _ in range(PROCESSES)
    ]  # fmt: skip
    try:
        assert [process.stdout.readline() for process in processes if process.stdout] == ["started\n"] * PROCESSES
        time.sleep(1.5 * WINDOW_S)  # first without a fault
        first_fault = time.monotonic()
        chance = random.Random(42)
        for fault in chance.sample(["restart", "pause", "flush", "restart", "flush", "pause"], 6):
            if fault == "restart":
                redis_server.kill()
                time.sleep(chance.uniform(0, 0.6))
                redis_server.start()
            elif fault == "pause":
                redis_server.pause()
                time.sleep(chance.uniform(0.2, 0.6))
                redis_server.resume()
            else:
                redis.Redis.from_url(redis_server.url).flushall()
            time.sleep(chance.uniform(0, 0.8))
        outputs = [process.communicate("stop\n", 60)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    accepted = [sorted(map(tuple, json.loads(output))) for output in outputs]
    for of_one in accepted:
        assert len(of_one) > LIMIT
        assert not exceeded(of_one, LIMIT)
    everything = sorted(accepted[0] + accepted[1])
    assert not exceeded(everything, PROCESSES * LIMIT)
    assert not exceeded([pair for pair in everything if pair[1] < first_fault], LIMIT)


def exceeded(accepted: list[tuple[float, ...]], limit: int) -> list[float]:
    """The lengths of windows that hold more than `limit`, whenever between sending and answer each was counted."""
    groups = [accepted[start : start + limit + 1] for start in range(len(accepted) - limit)]
    spans = [max(answered for _, answered in group) - group[0][0] for group in groups]
    return [span for span in spans if span < WINDOW_S]


@pytest.fixture
def on_redis(redis_server: RedisServer, settings: Any, monkeypatch: pytest.MonkeyPatch) -> redis.Redis:
    """This process uses `redis_server`, with short timeouts, and tries it again at once."""
    settings.REDIS_URL, settings.REDIS_TIMEOUT_S, settings.REDIS_RETRY_S = redis_server.url, 0.2, 0
    monkeypatch.setattr(core_redis, "availability", core_redis.Availability())
    monkeypatch.setattr(rate_limit, "token_log", rate_limit.TokenLog())
    return redis.Redis.from_url(redis_server.url)


def test_no_fault_of_redis_fails_a_search(
    integrator: Integrator, redis_server: RedisServer, on_redis: redis.Redis, settings: Any
) -> None:
    settings.RATE_LIMIT = (9, 3600)

    def search() -> int:
        return int(integrator.search().status_code)

    assert search() == 200
    on_redis.flushall()
    assert search() == 200
    on_redis.config_set("maxmemory", 1)
    assert search() == 200
    on_redis.config_set("maxmemory", 0)
    on_redis.replicaof("127.0.0.1", "1")
    assert search() == 200
    on_redis.replicaof("NO", "ONE")
    redis_server.pause()
    assert search() == 200
    redis_server.resume()
    assert search() == 200
    redis_server.kill()
    assert search() == 200
    redis_server.start()
    assert search() == 200
    assert not core_redis.availability.unavailable
    assert [search() for _ in range(3)] == [200, 429, 429]
    on_redis.flushall()
    assert search() == 429  # the process has not forgotten what it accepted


@pytest.mark.parametrize("fault", ["out of memory", "read-only"])
def test_a_redis_that_cannot_be_written_is_unavailable(
    on_redis: redis.Redis, settings: Any, caplog: pytest.LogCaptureFixture, fault: str
) -> None:
    settings.REDIS_RETRY_S = 60
    assert not core_redis.availability.unavailable
    if fault == "read-only":
        on_redis.replicaof("127.0.0.1", "1")
    else:
        on_redis.config_set("maxmemory", 1)
    assert awaited.hit(rate_limit.token_log, 1, 30, 60).allowed
    assert core_redis.availability.unavailable
    assert "Redis is unavailable" in caplog.text
