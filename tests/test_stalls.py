"""A database that does not respond although its connections stay open hangs no request, and the service recovers."""

import json
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
import requests

from tests.api import NUMBER
from tests.load import wait_for
from tests.servers import PostgresServer
from tests.service import Service

pytestmark = [pytest.mark.once, pytest.mark.slow, pytest.mark.reliability]

Serve = Callable[..., Service]
#: Far above any timeout, far below a wait without timeout.
BOUND_S = 8
LIMITS = {"DB_STATEMENT_TIMEOUT_MS": "500", "SEARCH_DEADLINE_S": "1.5", "RATE_LIMIT": "1000/m", "REDIS_URL": ""}

LIMIT_OF_TWO = {"RATE_LIMIT": "2/m"}


def search(service: Service, key: str, **headers: str) -> requests.Response:
    body = {"api_key": key, "query": NUMBER}
    return requests.post(f"{service.url}/callerid/search", json=body, headers=headers, timeout=30)


def get(service: Service, path: str) -> requests.Response:
    return requests.get(f"{service.url}{path}", timeout=30)


def new_key(service: Service) -> str:
    return service.manage("create_token", "stall", "--credits", "1000", "--quiet").strip()


def require_recovery(service: Service, key: str) -> None:
    """The service recovers by itself, charges each search, and returns the number that was requested."""
    deadline = time.monotonic() + 30
    while search(service, key).status_code != 200:
        assert time.monotonic() < deadline, service.log()
    wait_for(lambda: not service.unknown_charges())  # a refund would change the balance
    before = search(service, key).json()["credits_remaining"]
    for taken in range(1, 21):
        answer = search(service, key).json()
        assert answer["credits_remaining"] == before - taken
        assert answer["data"]["phone_number"] == NUMBER
    assert get(service, "/readyz").status_code in (200, 503)  # at most a second old
    assert json.loads(service.manage("audit_credits", "--json"))["disagreements"] == []


@pytest.mark.parametrize("idempotent", [False, True], ids=["without a key", "with a key"])
def test_a_stalled_database_hangs_no_search(serve: Serve, postgres_server: PostgresServer, idempotent: bool) -> None:
    service = serve(DATABASE_URL=postgres_server.url, **LIMITS)
    key = new_key(service)

    def attempt(index: int) -> tuple[int, float]:
        began = time.monotonic()
        response = search(service, key, **({"Idempotency-Key": f"attempt-{index}"} if idempotent else {}))
        return response.status_code, time.monotonic() - began

    with ThreadPoolExecutor(12) as callers:
        assert {status for status, _ in callers.map(attempt, range(24))} == {200}
        # Searches are in progress when it stalls.
        under_way = [callers.submit(attempt, 100 + index) for index in range(12)]
        postgres_server.pause()
        try:
            stalled = [callers.submit(attempt, 200 + index) for index in range(12)]
            assert get(service, "/livez").elapsed.total_seconds() < BOUND_S
            readiness = get(service, "/readyz")
            outcomes = [call.result(60) for call in [*under_way, *stalled]]
            assert search(service, key).status_code in (500, 503)
        finally:
            postgres_server.resume()
    assert readiness.elapsed.total_seconds() < BOUND_S
    assert max(elapsed for _, elapsed in outcomes) < BOUND_S
    assert {status for status, _ in outcomes[12:]} <= {500, 503}
    require_recovery(service, key)


def test_a_locked_sqlite_file_hangs_no_search(serve: Serve) -> None:
    service = serve(DATABASE_URL="", SQLITE_TIMEOUT_S="30", **LIMITS)
    key = new_key(service)
    file = sqlite3.connect(Path(service.env["CALLERID_DATA_DIR"], "callerid.sqlite3"), isolation_level=None)
    with closing(file), ThreadPoolExecutor(6) as callers:
        file.execute("BEGIN IMMEDIATE")
        answers = list(callers.map(lambda index: search(service, key, **{"Idempotency-Key": f"k{index}"}), range(6)))
        readiness = get(service, "/readyz")
        file.execute("ROLLBACK")
        assert max(answer.elapsed.total_seconds() for answer in [*answers, readiness]) < BOUND_S
        assert {answer.status_code for answer in answers} <= {500, 503}
        require_recovery(service, key)


def test_a_console_page_times_out_too(serve: Serve, postgres_server: PostgresServer) -> None:
    service = serve(DATABASE_URL=postgres_server.url, **LIMITS)
    session = requests.Session()
    session.cookies.set("sessionid", "0123456789abcdef0123456789abcdef")  # so that the page queries the database for it
    assert session.get(f"{service.url}/admin/", timeout=30).status_code == 200
    postgres_server.pause()
    try:
        answer = session.get(f"{service.url}/admin/", timeout=30)
    finally:
        postgres_server.resume()
    assert answer.status_code == 500
    assert answer.elapsed.total_seconds() < BOUND_S
    require_recovery(service, new_key(service))


@pytest.mark.parametrize("idempotent", [False, True], ids=["without a key", "with a key"])
def test_a_commit_that_waits_for_a_standby_times_out_too(
    serve: Serve, postgres_server: PostgresServer, idempotent: bool
) -> None:
    """statement_timeout does not apply to that wait."""
    service = serve(DATABASE_URL=postgres_server.url, **LIMITS)
    key = new_key(service)
    assert search(service, key).status_code == 200
    with psycopg.connect(postgres_server.url, autocommit=True) as admin:
        set_standby(admin, "absent")
        try:
            answer = search(service, key, **({"Idempotency-Key": "standby"} if idempotent else {}))
            failed = "SELECT sum(count) FROM accounts_searchhour WHERE outcome = 'failed'"
            wait_for(lambda: admin.execute(failed).fetchall() == [(1,)])  # statistics wait for no standby
        finally:
            set_standby(admin, "")
    assert answer.elapsed.total_seconds() < BOUND_S
    assert answer.status_code == 500
    require_recovery(service, key)


def test_lock_of_one_token_fails_searches_of_that_token_only(serve: Serve, postgres_server: PostgresServer) -> None:
    """`rotate` locks its row, which the foreign key of a claim waits for."""
    service = serve(DATABASE_URL=postgres_server.url, **LIMITS)
    locked, other = new_key(service), new_key(service)
    with psycopg.connect(postgres_server.url) as admin, ThreadPoolExecutor(12) as callers:
        admin.execute("SELECT id FROM accounts_apitoken WHERE id < (SELECT max(id) FROM accounts_apitoken) FOR UPDATE")
        waiting = [callers.submit(search, service, locked, **{"Idempotency-Key": f"k{index}"}) for index in range(12)]
        answers = [search(service, other, **{"Idempotency-Key": f"k{index}"}) for index in range(12)]
        assert {call.result(60).status_code for call in waiting} == {500}
        assert {answer.status_code for answer in answers} == {200}
        left = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        assert admin.execute(left).fetchone() == (0,)
        admin.rollback()
    assert "commits are suspended" not in service.log()
    require_recovery(service, locked)


def test_tokens_that_cannot_be_read_refuse_searches(serve: Serve, postgres_server: PostgresServer) -> None:
    """As after a wrong GRANT, or with a damaged table: what /readyz reads itself is all right."""
    with psycopg.connect(postgres_server.url, autocommit=True) as admin:
        admin.execute("CREATE ROLE callerid LOGIN")
        admin.execute("ALTER DATABASE postgres OWNER TO callerid")
        service = serve(DATABASE_URL=postgres_server.url.replace("postgres@", "callerid@"), **LIMITS | LIMIT_OF_TWO)
        key = new_key(service)
        admin.execute("REVOKE SELECT ON accounts_apitoken FROM callerid")
        answers = [search(service, key) for _ in range(4)]
        assert [answer.status_code for answer in answers] == [500] * 3 + [503]
        assert answers[-1].headers["Retry-After"] == "1"
        assert get(service, "/readyz").json() == {"detail": "Searches failed because of the database"}
        assert "42501" in service.log()
        assert "Traceback" not in service.log()
        admin.execute("GRANT SELECT ON accounts_apitoken TO callerid")
        # What was refused has not counted towards the rate limit.
        wait_for(lambda: search(service, key).status_code == 200)
        assert get(service, "/readyz").status_code == 200


def test_a_replay_waits_for_a_standby_too(serve: Serve, postgres_server: PostgresServer) -> None:
    """The commit whose answer is replayed may be visible although a failover would lose it."""
    service = serve(DATABASE_URL=postgres_server.url, **LIMITS)
    key, headers = new_key(service), {"Idempotency-Key": "standby"}
    first = search(service, key, **headers)
    with psycopg.connect(postgres_server.url, autocommit=True) as admin:
        set_standby(admin, "absent")
        try:
            # The server tells its sessions one after another.
            wait_for(lambda: search(service, key, **headers).status_code == 500)
        finally:
            set_standby(admin, "")
    wait_for(lambda: search(service, key, **headers).status_code == 200)
    assert search(service, key, **headers).json() == first.json()


def set_standby(admin: psycopg.Connection, name: str) -> None:
    """Wait until new sessions have it: they read it when they start."""
    admin.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{name}'")
    admin.execute("SELECT pg_reload_conf()")
    deadline = time.monotonic() + 20
    while admin.execute("SHOW synchronous_standby_names").fetchall() != [(name,)]:
        assert time.monotonic() < deadline
