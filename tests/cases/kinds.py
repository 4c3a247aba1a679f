"""What is done with a case, by its kind, and compared with its right result. README.md lists the kinds."""

import os
import re
import subprocess
import tomllib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
import redis
import requests
from django.core.exceptions import ImproperlyConfigured
from django.test import Client, RequestFactory

from callerid_project.environment import Environment
from callerid_project.middleware import request_id_for
from core import throttling
from lookup.answers import NotFound
from lookup.rate_limit import TokenLog
from lookup.vendors.cache import AnswerCache
from monitoring.health import dependencies, redis_check
from tests import awaited, raw_http
from tests.load import create_tokens, wait_for
from tests.plugin import ROOT
from tests.server_name import server_name
from tests.servers import RedisServer, free_port
from tests.service import Service


@dataclass(frozen=True)
class Case:
    """`data`: what case.toml has for its kind; a kind takes out what it uses."""

    folder: Path
    kind: str
    data: dict[str, Any]

    @classmethod
    def load(cls, folder: Path) -> "Case":
        """Raises KeyError if case.toml does not say where the case comes from."""
        data = tomllib.loads((folder / "case.toml").read_text(encoding="utf-8"))
        if not (data.pop("sources") and data.pop("situation")):
            raise KeyError(f"{folder.name}: sources and situation")
        return cls(folder, data.pop("kind"), data)


def forwarded_address(case: Case, settings: Any) -> None:
    settings.TRUSTED_PROXIES = case.data.pop("trusted_proxies")
    expected = case.data.pop("client")
    assert {sent: _client_address(sent) for sent in expected} == expected


def _client_address(forwarded: str) -> str:
    request = RequestFactory().get("/", REMOTE_ADDR="10.0.0.4", HTTP_X_FORWARDED_FOR=forwarded)
    address = throttling.client_address(request)
    return "unreadable" if address == throttling.UNKNOWN_ADDRESS else address


def allowed_hosts(case: Case, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALLOWED_HOSTS", case.data.pop("allowed_hosts"))
    if refused := case.data.pop("refused", None):
        with pytest.raises(ImproperlyConfigured, match=re.escape(refused)):
            Environment().hosts("ALLOWED_HOSTS", [])
        return
    settings.ALLOWED_HOSTS = Environment().hosts("ALLOWED_HOSTS", [])
    expected = case.data.pop("status")
    assert {host: Client().get("/livez", headers={"Host": host}).status_code for host in expected} == expected


def request_id(case: Case) -> None:
    expected = case.data.pop("kept")
    assert {sent: request_id_for(sent) == sent for sent in expected} == expected


def connection(case: Case, serve: Callable[..., Service]) -> None:
    """Files with a request each, sent one after the other on one connection. `<token>`: an API token, `<length>`: the
    body's; a body is sent in chunks if the headers say so, with what stands behind `<trailers>`."""
    service = serve()
    (key,) = create_tokens(service, 1)
    statuses = []
    with raw_http.Connection(service.port) as peer:
        for name in case.data.pop("requests"):
            head, _, body = (case.folder / name).read_text(encoding="utf-8").partition("\n\n")
            body, _, trailers = body.replace("<token>", key).partition("\n<trailers>\n")
            content = body.strip().encode()
            if "chunked" in head:
                length = len(content)
                last = b"0\r\n" + trailers.replace("\n", "\r\n").encode() + b"\r\n"
                content = raw_http.chunk(content[: length // 2]) + raw_http.chunk(content[length // 2 :]) + last
            head = head.replace("<length>", str(len(content))).replace("\n", "\r\n")
            statuses.append(peer.send(f"{head}\r\n\r\n".encode() + content).read().status)
    assert statuses == case.data.pop("status")


def redis_failover(
    case: Case, settings: Any, start_redis: Callable[..., RedisServer], caplog: pytest.LogCaptureFixture
) -> None:
    """The name of Redis leads to another server, and the old one, after the commands `fence`, keeps its connections and
    replies to writes with the error `reply`."""
    old_server, new_server = start_redis(), start_redis()
    limits, attempts, answers = TokenLog(), throttling.RedisOrLocalCache("", {}), AnswerCache()

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
        name.leads_to = new_server.port
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
    found = dependencies.redis_server.result()
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


def command_environment(case: Case, tmp_path: Path) -> None:
    """The environment that the command `callerid` gives to the program, which here prints it."""
    (tmp_path / "run").write_text("#!/bin/sh\nexec env -0\n")
    (tmp_path / "run").chmod(0o755)
    files = {"CALLERID_ENV_FILE": "callerid.env", "CALLERID_OWNER_ENV_FILE": "owner.env"}
    fixed = {name: str(case.folder / file) for name, file in files.items()} | {"CALLERID_ROOT": str(tmp_path)}
    got: list[object] = []
    expected: list[object] = []
    for run in case.data.pop("runs"):
        done = subprocess.run(
            [ROOT / "deploy" / "systemd" / "callerid", *run["command"].split()],
            env={"PATH": os.environ["PATH"], **fixed, **run.get("given", {})},
            capture_output=True,
            text=True,
            check=True,
        )
        environment = dict(entry.split("=", 1) for entry in done.stdout.split("\0") if entry)
        used, unset = run["used"], run.get("unset", [])
        said = [line.removeprefix("callerid: ").replace(f"{case.folder}/", "") for line in done.stderr.splitlines()]
        got.append(({name: environment[name] for name in used}, [name for name in unset if name in environment], said))
        expected.append((used, [], run.get("said", [])))
    assert got == expected
