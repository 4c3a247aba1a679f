"""Responses during and after failures of PostgreSQL and Redis, on real servers."""

import json
from collections.abc import Callable

import psycopg
import pytest
import requests

from tests.api import NUMBER
from tests.load import wait_for
from tests.servers import PostgresServer, RedisServer
from tests.service import Service

pytestmark = [pytest.mark.once, pytest.mark.slow]

Serve = Callable[..., Service]


def search(service: Service, key: str) -> requests.Response:
    return requests.post(f"{service.url}/callerid/search", json={"api_key": key, "query": NUMBER}, timeout=30)


def new_key(service: Service) -> str:
    return service.manage("create_token", "outage", "--credits", "1000", "--quiet").strip()


def close_connections(postgres_url: str) -> None:
    """Every connection but this one. Returns when the server has closed them."""
    with psycopg.connect(postgres_url, autocommit=True) as admin:
        admin.execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )


def test_connections_closed_by_the_database_fail_no_search(serve: Serve, postgres_url: str) -> None:
    service = serve(DATABASE_URL=postgres_url, REDIS_URL="", RATE_LIMIT="1000/m")
    key = new_key(service)
    assert search(service, key).status_code == 200
    for _ in range(3):
        close_connections(postgres_url)
        assert [search(service, key).status_code for _ in range(6)] == [200] * 6
    assert search(service, key).json()["credits_remaining"] == 1000 - 20


def test_the_first_searches_after_a_restart_succeed(serve: Serve, postgres_server: PostgresServer) -> None:
    service = serve(DATABASE_URL=postgres_server.url, REDIS_URL="", RATE_LIMIT="1000/m")
    key = new_key(service)
    for _ in range(2):
        assert [search(service, key).status_code for _ in range(6)] == [200] * 6
        postgres_server.stop()
        postgres_server.start()
    assert [search(service, key).status_code for _ in range(6)] == [200] * 6


def test_connections_closed_by_the_database_fail_no_page(serve: Serve, postgres_url: str) -> None:
    service = serve(DATABASE_URL=postgres_url, REDIS_URL="")

    def statuses() -> list[int]:
        return [requests.get(f"{service.url}/readyz", timeout=30).status_code for _ in range(8)]

    assert statuses() == [200] * 8
    close_connections(postgres_url)
    assert statuses() == [200] * 8


def test_exhausted_connections_are_named(serve: Serve, postgres_server: PostgresServer) -> None:
    """By /readyz and the log, where they have a SQLSTATE, and by doctor, where PostgreSQL has only words for them."""
    url = postgres_server.url.replace("postgres@", "callerid@")
    with psycopg.connect(postgres_server.url, autocommit=True) as admin:
        admin.execute("CREATE ROLE callerid LOGIN")
        admin.execute("ALTER DATABASE postgres OWNER TO callerid")
        service = serve(DATABASE_URL=url, REDIS_URL="", RATE_LIMIT="1000/m")
        key = new_key(service)
        admin.execute("ALTER ROLE callerid CONNECTION LIMIT 0")
        admin.execute("SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE usename = 'callerid'")

        def detail() -> str:
            return str(requests.get(f"{service.url}/readyz", timeout=30).json().get("detail"))

        named = "The database has no connection left: all those of the server, or of this role, are in use"
        wait_for(lambda: detail() == named)
        check = service.doctor("Database")
        assert (check["ok"], named in check["detail"], "pg_stat_activity" in check["detail"]) == (False, True, True)
        assert "53300 too many connections for role" in service.log()
        admin.execute("ALTER ROLE callerid CONNECTION LIMIT -1")
        wait_for(lambda: search(service, key).status_code == 200)


def test_a_locked_table_fails_only_its_own_slot(serve: Serve, postgres_url: str) -> None:
    service = serve(DATABASE_URL=postgres_url, REDIS_URL="", DB_STATEMENT_TIMEOUT_MS="500")
    key = new_key(service)
    with psycopg.connect(postgres_url) as admin:
        admin.execute(
            "INSERT INTO phonebook_complaintday (number, source, day, total, robocalls)"
            " VALUES (%s, 'test', current_date, 5, 0)",
            [int(NUMBER)],
        )
        admin.commit()
        admin.execute("LOCK TABLE phonebook_contact")
        responses = [search(service, key) for _ in range(3)]
        admin.rollback()
    for response in responses:
        assert response.status_code == 200
        assert response.json()["data"]["source_b"] == {"spam": True}
        assert 'source_a;desc="failed"' in response.headers["Server-Timing"]
    # Only the first search waited for the combined query, and then for the locked table.
    assert service.log().count("combined query failed") == 1


def test_a_column_type_change_during_searches_fails_none(serve: Serve, postgres_url: str) -> None:
    """It invalidates the prepared statements of each connection."""
    service = serve(DATABASE_URL=postgres_url, REDIS_URL="", RATE_LIMIT="1000/m")
    key = new_key(service)
    with psycopg.connect(postgres_url, autocommit=True) as admin:
        assert [search(service, key).status_code for _ in range(40)] == [200] * 40
        admin.execute("ALTER TABLE phonebook_contact ALTER name TYPE varchar(999)")
        assert [search(service, key).status_code for _ in range(20)] == [200] * 20
        admin.execute("ALTER TABLE accounts_apitoken ALTER credits TYPE numeric")
        assert [search(service, key).status_code for _ in range(20)] == [200] * 20
        admin.execute("ALTER TABLE accounts_apitoken ALTER credits TYPE bigint")
        assert [search(service, key).status_code for _ in range(20)] == [200] * 20
    assert json.loads(service.manage("audit_credits", "--json")) == {"disagreements": []}


def test_a_locked_token_is_500_and_costs_nothing(serve: Serve, postgres_url: str) -> None:
    service = serve(DATABASE_URL=postgres_url, REDIS_URL="", DB_STATEMENT_TIMEOUT_MS="500")
    key = new_key(service)
    with psycopg.connect(postgres_url) as admin:
        admin.execute("SELECT 1 FROM accounts_apitoken FOR UPDATE")
        response = search(service, key)
        assert (response.status_code, response.json()) == (500, {"detail": "Internal server error"})
        admin.rollback()
    assert search(service, key).json()["credits_remaining"] == 999
    assert json.loads(service.manage("audit_credits", "--json")) == {"disagreements": []}


def test_without_redis_the_rate_limit_still_applies(serve: Serve, postgres_url: str, redis_server: RedisServer) -> None:
    service = serve(
        DATABASE_URL=postgres_url,
        REDIS_URL=redis_server.url,
        REDIS_TIMEOUT_S="0.5",
        RATE_LIMIT="10/h",
    )
    key = new_key(service)
    assert search(service, key).headers["RateLimit"].startswith('"token";r=9;')
    redis_server.pause()
    try:
        statuses = [search(service, key).status_code for _ in range(14)]
    finally:
        redis_server.resume()
    assert statuses == [200] * 9 + [429] * 5  # the process knows what it accepted before
    assert "Redis is unavailable" in service.log()


def test_memory_of_a_new_instance_has_an_upper_bound(serve: Serve) -> None:
    """Twice what an instance needs would halve how many fit on a host (docs/performance.md)."""
    service = serve()
    search(service, new_key(service))
    assert service.resident_mb() < 200
