"""The health check of Redis runs what the service runs. A Redis Cluster is refused at the start."""

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
import redis

from core import redis as core_redis
from lookup.answers import Found
from lookup.rate_limit import TokenLog
from lookup.vendors.cache import AnswerCache
from monitoring.health import redis_check
from tests import awaited
from tests.clusters import Sentinel
from tests.load import wait_for
from tests.plugin import ROOT
from tests.servers import RedisServer, free_port
from tests.service import Service

pytestmark = [pytest.mark.once, pytest.mark.slow]


def detail() -> str:
    """What the check says of an unhealthy Redis."""
    core_redis.availability = core_redis.Availability()
    result = redis_check.CHECK.result()
    assert result is not None
    assert not result.healthy
    return result.detail


@pytest.fixture
def admin(redis_server: RedisServer, settings: Any) -> Iterator[redis.Redis]:
    """Of the server that this process uses."""
    settings.REDIS_URL = redis_server.url
    with closing(redis.Redis.from_url(redis_server.url, decode_responses=True)) as client:
        yield client


def test_the_check_uses_keys_of_its_own_and_keeps_none(admin: redis.Redis) -> None:
    awaited.hit(TokenLog(), 1, 30, 60)
    for _ in range(3):
        assert redis_check.find_eviction_problem() is None
    assert set(admin.scan_iter()) - {"callerid:health-check"} == {"callerid:rate:1", core_redis.LIMITS}
    assert admin.zrange(core_redis.LIMITS, 0, -1) == ["callerid:rate:1"]
    assert 0 < admin.pttl("callerid:health-check") <= 1000


def test_the_check_runs_every_command_of_the_service(admin: redis.Redis) -> None:
    redis_check.find_eviction_problem()
    checked = set(admin.info("commandstats"))
    source = "".join(
        (ROOT / name).read_text() for name in ("core/redis.py", "core/attempt_limits.py", "lookup/rate_limit.py")
    )
    in_scripts = {f"cmdstat_{command.lower()}" for command in re.findall(r"redis\.call\('([A-Z]+)'", source)}
    assert len(in_scripts) > 10
    assert in_scripts | {f"cmdstat_{name}" for name in ("evalsha", "eval", "get", "incrby", "mget", "set")} <= checked


def as_user(server: RedisServer, user: str) -> str:
    return server.url.replace("//", f"//{user}:secret@")


def test_a_user_with_the_documented_permissions_suffices(
    admin: redis.Redis, redis_server: RedisServer, settings: Any
) -> None:
    page = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"ACL SETUSER callerid [^`]*", page)
    admin.execute_command(*command.split())
    settings.REDIS_URL = redis_server.url.replace("//", "//callerid:password@")
    stored = "Reachable; limits and cached answers are stored."
    assert redis_check.CHECK.result() == ("Redis", True, stored, True, False)


@pytest.mark.parametrize(
    ("rules", "reply"),
    [
        ("+@all -@scripting ~*", "NOPERM: this user has no permissions to run the 'evalsha' command."),
        ("+@all -eval ~*", "NOPERM: this user has no permissions to run the 'eval' command."),
        ("+@all -mget ~*", "NOPERM: this user has no permissions to run the 'mget' command."),
        ("+@all ~callerid:rate:* ~callerid:limits", "NOPERM: this user has no permissions to access one of the keys"),
        ("+@all ~cache:*", "NOPERM: this user has no permissions to access one of the keys"),
        ("+@all -ltrim ~*", ""),  # in the script: Redis 7.0 replies with ERR
    ],
)
def test_a_missing_permission_is_named(
    admin: redis.Redis, redis_server: RedisServer, settings: Any, rules: str, reply: str
) -> None:
    admin.execute_command("ACL", "SETUSER", "user", "on", ">secret", *rules.split())
    settings.REDIS_URL = as_user(redis_server, "user")
    assert detail().startswith(f"Redis is unavailable. {reply}")
    assert "that docs/reliability.md lists" in detail() or "what docs/reliability.md lists" in detail()


@pytest.mark.parametrize(
    ("commands", "reply", "hint"),
    [
        (["REPLICAOF 127.0.0.1 1"], "READONLY: ", "use the name of the primary"),
        (["REPLICAOF 127.0.0.1 1", "CONFIG SET replica-serve-stale-data no"], "MASTERDOWN: ", "the primary"),
        (["CONFIG SET min-replicas-to-write 1"], "NOREPLICAS: ", "min-replicas-to-write"),
        (["CONFIG SET maxmemory 1"], "OOM: ", "raise maxmemory"),
        (["CONFIG SET requirepass secret"], "NOAUTH: ", "Correct user and password"),
    ],
)
def test_a_server_that_refuses_to_write_is_a_problem(
    admin: redis.Redis, commands: list[str], reply: str, hint: str
) -> None:
    for command in commands:
        admin.execute_command(command)
    assert detail().startswith(f"Redis is unavailable. {reply}")
    assert hint in detail()


def test_a_wrong_password_is_a_problem(admin: redis.Redis, redis_server: RedisServer, settings: Any) -> None:
    settings.REDIS_URL = as_user(redis_server, "nobody")
    assert "WRONGPASS: invalid username-password pair or user is disabled." in detail()
    assert "secret" not in detail()


@pytest.fixture
def start(start_redis: Callable[..., RedisServer], settings: Any) -> Callable[..., RedisServer]:
    """Starts a server with options; this process uses it."""

    def start(*options: str) -> RedisServer:
        server = start_redis(*options)
        settings.REDIS_URL = server.url
        return server

    return start


@pytest.mark.parametrize("renamed", ["EVALSHA", "EVAL", "SET"])
def test_a_renamed_command_is_a_problem(start: Callable[..., RedisServer], renamed: str) -> None:
    start("--rename-command", renamed, "")
    assert f"ERR: unknown command '{renamed}'. Each process counts" in detail()
    assert "Lua scripts" in detail()


def test_a_refused_answer_is_not_quoted(start: Callable[..., RedisServer]) -> None:
    start("--rename-command", "SET", "")
    awaited.put(AnswerCache(), "callerid:answer:k", Found(name="Musterhaus Advisors"), 60)
    assert "Musterhaus Advisors" in str(core_redis.availability.error)
    result = redis_check.CHECK.result()
    assert result is not None
    assert "ERR: unknown command 'SET'." in result.detail
    assert "Musterhaus" not in result.detail


def test_a_redis_that_does_not_tell_its_policy_is_healthy(start: Callable[..., RedisServer]) -> None:
    start("--rename-command", "INFO", "")
    assert redis_check.find_eviction_problem() is None


def test_the_address_of_a_sentinel_is_a_problem(redis_server: RedisServer, settings: Any) -> None:
    sentinel = Sentinel(redis_server).start()
    settings.REDIS_URL = sentinel.url
    assert detail().startswith("Redis is unavailable. ERR: unknown command 'EVALSHA'. ")
    assert "not to a Sentinel" in detail()
    sentinel.close()


# --- Redis Cluster ---------------------------------------------------------------------------------------------------


#: By default the port for other nodes is 10,000 above the server's, which may be more than there are.
CLUSTER = ("--cluster-enabled", "yes", "--cluster-port", str(free_port()))


@pytest.fixture
def cluster(start: Callable[..., RedisServer]) -> RedisServer:
    """One node that serves every slot, as with a managed Redis of one shard in cluster mode."""
    server = start(*CLUSTER)
    with closing(redis.Redis.from_url(server.url, decode_responses=True)) as admin:
        admin.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        wait_for(lambda: "cluster_state:ok" in str(admin.execute_command("CLUSTER", "INFO")))
    return server


REFUSAL = "REDIS_URL points to a Redis Cluster, where limits would not be shared: use one primary"


def test_a_cluster_without_slots_is_a_problem(start: Callable[..., RedisServer]) -> None:
    start(*CLUSTER)
    assert detail().startswith("Redis is unavailable. CLUSTERDOWN: Hash slot not served.")
    assert REFUSAL in detail()


def test_service_refuses_to_start_with_a_cluster(serve: Callable[..., Service], cluster: RedisServer) -> None:
    service = serve(REDIS_URL="")
    assert service.stop() == 0
    environment = {**service.env, "REDIS_URL": cluster.url}
    command = [sys.executable, "-m", "callerid_project.serve"]
    started = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert started.returncode == 3
    assert REFUSAL in started.stderr
    assert "Traceback" not in started.stderr
    doctor = subprocess.run(
        [sys.executable, str(ROOT / "manage.py"), "doctor"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert doctor.returncode == 1
    assert REFUSAL in doctor.stdout


def test_service_starts_with_a_redis_that_may_recover(serve: Callable[..., Service], redis_server: RedisServer) -> None:
    with closing(redis.Redis.from_url(redis_server.url)) as admin:
        admin.replicaof("127.0.0.1", "1")
    service = serve(REDIS_URL=redis_server.url)
    assert "Redis: Redis is unavailable. READONLY" in service.log()
