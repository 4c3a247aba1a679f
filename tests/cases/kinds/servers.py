"""What happens when PostgreSQL and Redis fail over, or refuse."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from typing import Any

import psycopg
import pytest
import redis
import requests

from core import attempt_limits
from lookup.answers import NotFound
from lookup.rate_limit import TokenLog
from lookup.vendors.cache import AnswerCache
from monitoring.health import redis_check
from tests import awaited
from tests.cases.case import Case
from tests.load import create_tokens, wait_for
from tests.server_name import server_name
from tests.servers import RedisServer, free_port
from tests.service import Service


def redis_failover(
    case: Case, settings: Any, start_redis: Callable[..., RedisServer], caplog: pytest.LogCaptureFixture
) -> None:
    """The name of Redis resolves to another server, and the old one, after the commands `fence`, keeps its connections
    and replies to writes with the error `reply`."""
    old_server, new_server = start_redis(), start_redis()
    limits, attempts, answers = TokenLog(), attempt_limits.RedisOrLocalCache("", {}), AnswerCache()

    def use_all() -> None:
        assert awaited.hit(limits, 1, 100, 60).allowed
        attempts.add("192.0.2.1", 1, 60)
        attempts.incr("192.0.2.1")
        awaited.put(answers, "callerid:answer:k", NotFound(), 60)

    with (
        server_name(old_server.port) as name,
        closing(redis.Redis.from_url(old_server.url)) as old,
        closing(redis.Redis.from_url(new_server.url)) as new,
    ):
        settings.REDIS_URL, settings.REDIS_RETRY_S = f"redis://127.0.0.1:{name.port}/0", 0
        use_all()
        written = old.dbsize()
        for command in case.data.pop("fence"):
            old.execute_command(command)
        name.resolves_to = new_server.port
        use_all()  # the first use falls back, and the next ones find the new server
        use_all()
        logged = [record.message.partition(":")[0] for record in caplog.records]
        reply = case.data.pop("reply")
        assert logged == [f"Redis is unavailable ({reply})", "Redis is available again"]
        assert (new.dbsize(), len(old.client_list(_type="normal"))) == (written, 1)
        awaited.disconnect_from_redis()


def redis_health(case: Case, settings: Any, start_redis: Callable[..., RedisServer]) -> None:
    """A Redis with `options` and after `commands`, until what `wait` names. `<free>`: a free port, `<port>`: the
    server's."""
    server = start_redis(*(option.replace("<free>", str(free_port())) for option in case.data.pop("options", [])))
    with closing(redis.Redis.from_url(server.url, decode_responses=True)) as admin:
        for command in case.data.pop("commands"):
            admin.execute_command(*command.split())
        for command, part in case.data.pop("wait", {}).items():
            wait_for(partial(_replies, admin, command, part))
    settings.REDIS_URL = case.data.pop("url").replace("<port>", str(server.port))
    found = redis_check.CHECK.result()
    assert found is not None
    assert [part for part in case.data.pop("says") if part not in found.detail] == [], found.detail
    assert (redis_check.reason_to_refuse_start() is None) is case.data.pop("starts")


def _replies(client: "redis.Redis", command: str, part: str) -> bool:
    return part in str(client.execute_command(*command.split()))


def read_only_database(case: Case, serve: Callable[..., Service], postgres_url: str) -> None:
    """The database accepts no writes, in new connections only: so it stands for the server to which a name leads when
    they are made. `before_start`: already then. `ends_connections`: those that are open end at that moment."""
    limits = {"DB_STATEMENT_TIMEOUT_MS": "500", "SEARCH_DEADLINE_S": "1.5", "RATE_LIMIT": "10000/m", "REDIS_URL": ""}
    service = serve(DATABASE_URL=postgres_url, **limits)
    (key,) = create_tokens(service, 1, credits=1000)

    def demote(state: str) -> None:
        with psycopg.connect(postgres_url, autocommit=True) as admin:
            admin.execute("SET default_transaction_read_only = off")
            admin.execute(f'ALTER DATABASE "{admin.info.dbname}" SET default_transaction_read_only = {state}')
            if ends_connections:
                own = "WHERE datname = current_database() AND pid <> pg_backend_pid()"
                admin.execute(f"SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity {own}")

    def search(_: int) -> int:
        body = {"api_key": key, "query": "12025550100"}
        return requests.post(f"{service.url}/callerid/search", json=body, timeout=30).status_code

    def readiness() -> tuple[int, str]:
        answer = requests.get(f"{service.url}/readyz", timeout=30)
        return answer.status_code, answer.json().get("detail", "")

    before_start, ends_connections = case.data.pop("before_start"), case.data.pop("ends_connections")
    if before_start:
        service.stop()
    demote("on")
    if before_start:
        service.start()
    with ThreadPoolExecutor(12) as callers:
        refused = {*callers.map(search, range(24)), *callers.map(search, range(24))}
        assert refused <= set(case.data.pop("statuses"))
        wait_for(lambda: readiness()[0] == 503)
        assert case.data.pop("readyz") in readiness()[1]
        ends_connections = False
        demote("off")
        wait_for(lambda: search(0) == 200, timeout_s=10)
        wait_for(lambda: readiness() == (200, ""), timeout_s=10)
        assert {*callers.map(search, range(48))} == {200}
    with psycopg.connect(postgres_url) as database:
        assert database.execute("SELECT 1000 - credits FROM accounts_apitoken").fetchall() == [(49,)]
