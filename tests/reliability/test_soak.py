"""Random faults for a long time: no search is charged twice or for nothing, and nothing grows."""

import logging
import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import linear_regression

import psycopg
import pytest
import redis

from tests import load, upstream
from tests.mock_vendors import KEYS, PRESETS
from tests.reliability import LONG
from tests.reliability.operations import Operator, serve_hosts
from tests.servers import PostgresServer, RedisServer
from tests.service import Service
from tests.upstream import Upstream, says

pytestmark = [pytest.mark.once, pytest.mark.slow, pytest.mark.reliability]
log = logging.getLogger(__name__)

DURATION_S, PAUSE_S, RATE = (1800, 5.0, 30) if LONG else (15, 0.5, 30)
NUMBERS = [f"1212555{number:04}" for number in range(100, 200)]
#: After the faults, each search that failed succeeds within this time.
RECOVERY_S = 120
#: Over the second half.
LARGEST_SLOPE_MB_PER_HOUR = 1.0
#: Calls and connections that happen to be open at a moment.
SLACK = 10


class Faults:
    """Each method breaks something and mends it. `instance` is the one that it kills."""

    def __init__(
        self, instance: Service, postgres: PostgresServer, redis_server: RedisServer, vendors: list[Upstream]
    ) -> None:
        self._instance, self._postgres, self._redis, self._vendors = instance, postgres, redis_server, vendors

    def kill_instance(self) -> None:
        self._instance.kill()
        self._instance.start()

    def kill_database(self) -> None:
        """As `pg_ctl stop -m immediate`: the server recovers from its log when it starts."""
        assert self._postgres.process is not None
        self._postgres.process.send_signal(signal.SIGQUIT)
        self._postgres.process.wait(60)
        time.sleep(PAUSE_S)
        self._postgres.start()

    def end_database_sessions(self) -> None:
        with psycopg.connect(self._postgres.url, autocommit=True) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
            )

    def stall_database(self) -> None:
        self._postgres.pause()
        time.sleep(PAUSE_S)
        self._postgres.resume()

    def stall_redis(self) -> None:
        self._redis.pause()
        time.sleep(PAUSE_S)
        self._redis.resume()

    def restart_redis(self) -> None:
        self._redis.kill()
        time.sleep(PAUSE_S)
        self._redis.start()

    def flush_redis(self) -> None:
        with redis.Redis.from_url(self._redis.url) as client:
            client.flushall()

    def break_vendor(self) -> None:
        server = random.choice(self._vendors)
        server.behave_as(random.choice(list(upstream.FAULTS.values()))[0])
        time.sleep(PAUSE_S)
        server.behave_as(says({**upstream.GOOD_A, **upstream.GOOD_B}))
        server.release()


@dataclass(frozen=True, slots=True)
class Sample:
    """Of one process: `at` in seconds."""

    at: float
    resident_mb: float
    threads: int
    descriptors: int

    @classmethod
    def of(cls, pid: int) -> "Sample":
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
        values = {name: value for name, _, value in (line.partition(":") for line in status.splitlines())}
        descriptors = len(list(Path(f"/proc/{pid}/fd").iterdir()))
        return cls(time.monotonic(), int(values["VmRSS"].split()[0]) / 1024, int(values["Threads"]), descriptors)


def test_no_fault_loses_or_adds_a_charge_and_nothing_grows(
    serve: Callable[..., Service],
    vendor: Callable[..., Upstream],
    postgres_server: PostgresServer,
    redis_server: RedisServer,
) -> None:
    random.seed(seed := random.randrange(1_000_000))
    vendors = [vendor(says({**upstream.GOOD_A, **upstream.GOOD_B})) for _ in range(2)]
    environment = {
        "DATABASE_URL": postgres_server.url,
        "REDIS_URL": redis_server.url,
        "RATE_LIMIT": "1000000/m",
        "SEARCH_DEADLINE_S": "1.5",
        "DB_STATEMENT_TIMEOUT_MS": "500",
        "MALLOC_ARENA_MAX": "2",  # as `./run serve` sets it
        "PRESET_DIR": str(PRESETS),
        "SOURCE_A": "directory,mock_a,geography",
        "SOURCE_B": "complaints,mock_b",
        "MOCK_A_BASE_URL": vendors[0].url,
        "MOCK_B_BASE_URL": vendors[1].url,
        **KEYS,
    }
    service, other = serve_hosts(serve, environment)
    assert service.process is not None
    survivor = service.process.pid
    api_keys = load.create_tokens(service, 5, credits=1_000_000)
    faults = Faults(other, postgres_server, redis_server, vendors)
    choices = [getattr(faults, name) for name in vars(Faults) if not name.startswith("_")]
    samples = []
    with load.Load(service, api_keys, others=[other], rate=RATE, keep_alive=12, phone_numbers=NUMBERS) as searches:
        ends_at = time.monotonic() + DURATION_S
        while time.monotonic() < ends_at:
            fault = random.choice(choices)
            fault()
            searches.more(int(RATE * PAUSE_S))
            samples.append(Sample.of(survivor))
            log.info("%s: %s", fault.__name__, samples[-1])
    with load.Client(service) as client:
        for failure in searches.failures():
            client.retry(failure, timeout_s=RECOVERY_S)
    log.info("seed %d: %s; at first %s, in the end %s", seed, searches.statuses(), samples[0], samples[-1])
    assert service.process.poll() is None
    with Operator(service) as operator:
        assert operator("debits") == len(searches.answers)
        assert operator("disagreements") == 0
    assert samples[-1].threads <= max(sample.threads for sample in early(samples)) + SLACK
    if LONG:  # the short form is over before each kind of connection was opened
        assert samples[-1].descriptors <= max(sample.descriptors for sample in early(samples)) + SLACK
        warm = samples[len(samples) // 2 :]
        slope = linear_regression([each.at for each in warm], [each.resident_mb for each in warm]).slope
        assert slope * 3600 < LARGEST_SLOPE_MB_PER_HOUR


def early(samples: list[Sample]) -> list[Sample]:
    """The first half, in which all kinds of faults have occurred."""
    return samples[: len(samples) // 2 + 1]
