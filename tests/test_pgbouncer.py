"""The service behind PgBouncer, whose transaction mode gives each transaction another session."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
import requests

from tests.api import NUMBER
from tests.clusters import PostgresPair
from tests.load import wait_for
from tests.plugin import ROOT
from tests.servers import PgBouncer, PostgresServer, required
from tests.service import Service

pytestmark = [pytest.mark.once, pytest.mark.slow]

Serve = Callable[..., Service]
API_TESTS = (
    "tests/lookup/test_search.py",
    "tests/lookup/test_order_of_checks.py",
    "tests/accounts/test_credits.py",
    "tests/accounts/test_idempotency.py",
)


@pytest.fixture
def pooled_url(postgres_url: str) -> Iterator[str]:
    with required():
        server = PgBouncer(postgres_url).start()
    yield server.url
    server.close()


def search(service: Service, key: str, **headers: str) -> requests.Response:
    body = {"api_key": key, "query": NUMBER}
    return requests.post(f"{service.url}/callerid/search", json=body, headers=headers, timeout=30)


def new_key(service: Service) -> str:
    return service.manage("create_token", "pooled", "--credits", "1000", "--quiet").strip()


def test_the_service_works_through_a_transaction_pooler(serve: Serve, pooled_url: str) -> None:
    service = serve(DATABASE_URL=pooled_url, DB_PREPARE="false", REDIS_URL="", RATE_LIMIT="1000/m")  # migrated so
    key = new_key(service)
    with ThreadPoolExecutor(8) as callers:
        answers = list(callers.map(lambda _: search(service, key), range(40)))
    assert sorted(answer.json()["credits_remaining"] for answer in answers) == list(range(960, 1000))
    paid = [search(service, key, **{"Idempotency-Key": "once"}) for _ in range(2)]
    assert paid[0].json() == paid[1].json() == {**paid[0].json(), "credits_remaining": 959}
    assert paid[1].headers["Idempotent-Replayed"] == "true"
    session = {"sessionid": "0123456789abcdef0123456789abcdef"}  # so that the page queries the database for it
    assert requests.get(f"{service.url}/admin/login/", cookies=session, timeout=30).status_code == 200
    assert requests.get(f"{service.url}/readyz", timeout=30).status_code == 200
    assert "pooled" in service.manage("list_tokens")
    assert json.loads(service.manage("audit_credits", "--json")) == {"disagreements": []}


def test_the_api_tests_pass_through_a_transaction_pooler(postgres_server: PostgresServer, redis_url: str) -> None:
    """Those of the search, of credits and of idempotency keys, on the production profile. Without those of vendors that
    hang, which depend on the time that a machine has and on no database."""
    with required():
        pooler = PgBouncer(postgres_server.url, connections=20).start()
    environment = {**os.environ, "CALLERID_TEST_PROFILE": "production", "TEST_DB_PREPARE": "false"}
    environment |= {"TEST_DATABASE_URL": pooler.url, "TEST_REDIS_URL": redis_url}
    for name in [name for name in environment if name.startswith("PYTEST_")]:
        del environment[name]
    # Kept, because the pooler keeps connections to the database that would be dropped.
    command = [sys.executable, "-m", "pytest", "-n0", "-q", "-p", "no:cacheprovider", "--reuse-db", "-m", "not slow"]
    command += ["-k", "not hang"]
    try:
        run = subprocess.run(
            [*command, *API_TESTS], cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=300
        )
    finally:
        pooler.close()
    assert run.returncode == 0, run.stdout[-5000:]


def test_no_session_state_is_left_on_pooled_connections(serve: Serve, pooled_url: str) -> None:
    service = serve(DATABASE_URL=pooled_url, DB_PREPARE="false", REDIS_URL="", DB_STATEMENT_TIMEOUT_MS="500")
    assert search(service, new_key(service)).status_code == 200
    with psycopg.connect(pooled_url) as one, psycopg.connect(pooled_url) as other:  # both of the server's connections
        for connection in (one, other):
            assert connection.execute("SHOW statement_timeout").fetchall() == [("0",)]
            assert connection.execute("SELECT count(*) FROM pg_prepared_statements").fetchall() == [(0,)]


def test_the_client_timeout_applies_without_a_server_timeout(serve: Serve, pooled_url: str) -> None:
    service = serve(
        DATABASE_URL=pooled_url,
        DB_PREPARE="false",
        REDIS_URL="",
        DB_STATEMENT_TIMEOUT_MS="500",
        SEARCH_DEADLINE_S="3",  # until then the service checks whether the charge was committed
    )
    key = new_key(service)
    with psycopg.connect(pooled_url) as admin:
        admin.execute("SELECT 1 FROM accounts_apitoken FOR UPDATE")
        answer = search(service, key)
        admin.rollback()
    assert answer.status_code == 500
    assert answer.elapsed.total_seconds() < 8
    # The pooler's session was not ended, so the debit is made once it gets the lock. It is refunded.
    wait_for(lambda: not service.unknown_charges())
    assert search(service, key).json()["credits_remaining"] == 999
    audited = json.loads(service.manage("audit_credits", "--json"))
    assert (audited["disagreements"], audited["unknown_charges"]["unknown"]) == ([], 0)


def test_the_service_works_through_a_session_pooler(serve: Serve, postgres_url: str) -> None:
    """With prepared statements and the server's time limit, as without a pooler."""
    with required():
        pooler = PgBouncer(postgres_url, pool_mode="session", connections=20).start()
    try:
        service = serve(DATABASE_URL=pooler.url, REDIS_URL="")
        assert search(service, new_key(service)).json()["credits_remaining"] == 999
    finally:
        pooler.close()


def test_a_reloaded_pooler_follows_a_failover(serve: Serve) -> None:
    with required():
        pair = PostgresPair().start(synchronous=False)
        pooler = PgBouncer(pair.primary.url).start()
    try:
        service = serve(DATABASE_URL=pooler.url, DB_PREPARE="false", REDIS_URL="", RATE_LIMIT="1000/m")
        key = new_key(service)
        assert search(service, key).status_code == 200
        pair.primary.kill()
        pair.standby.promote()
        assert search(service, key).status_code >= 500
        configuration = pooler.directory / "pgbouncer.ini"
        text = configuration.read_text().replace(f"{pair.primary.port}", f"{pair.standby.port}")
        configuration.write_text(f"{text}server_login_retry = 1\nquery_wait_timeout = 1\n")  # as in the shipped file
        assert pooler.process is not None
        pooler.process.send_signal(signal.SIGHUP)  # what `systemctl reload` sends
        wait_for(lambda: search(service, key).status_code == 200)
    finally:
        pooler.close()
        pair.close()
