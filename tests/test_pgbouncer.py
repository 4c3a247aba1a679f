"""The service through PgBouncer: in transaction mode no session is its own."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
import requests

from tests.api import NUMBER
from tests.plugin import ROOT, generated_keys
from tests.servers import PgBouncer, required
from tests.service import Service

pytestmark = pytest.mark.once

Serve = Callable[..., Service]


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


def test_all_that_the_service_does_works_through_it(serve: Serve, pooled_url: str) -> None:
    service = serve(DATABASE_URL=pooled_url, DB_PREPARE="false", REDIS_URL="", RATE_LIMIT="1000/m")  # migrated so
    key = new_key(service)
    with ThreadPoolExecutor(8) as callers:
        answers = list(callers.map(lambda _: search(service, key), range(40)))
    assert sorted(answer.json()["credits_remaining"] for answer in answers) == list(range(960, 1000))
    paid = [search(service, key, **{"Idempotency-Key": "once"}) for _ in range(2)]
    assert paid[0].json() == paid[1].json() == {**paid[0].json(), "credits_remaining": 959}
    assert paid[1].headers["Idempotent-Replayed"] == "true"
    session = {"sessionid": "0123456789abcdef0123456789abcdef"}  # so that the page asks the database for it
    assert requests.get(f"{service.url}/admin/login/", cookies=session, timeout=30).status_code == 200
    assert requests.get(f"{service.url}/readyz", timeout=30).status_code == 200
    assert "pooled" in service.manage("list_tokens")
    assert json.loads(service.manage("audit_credits", "--json")) == {"disagreements": []}


def test_nothing_is_left_on_a_connection_that_others_get(serve: Serve, pooled_url: str) -> None:
    service = serve(DATABASE_URL=pooled_url, DB_PREPARE="false", REDIS_URL="", DB_STATEMENT_TIMEOUT_MS="500")
    assert search(service, new_key(service)).status_code == 200
    with psycopg.connect(pooled_url) as one, psycopg.connect(pooled_url) as other:  # both of the server's connections
        for connection in (one, other):
            assert connection.execute("SHOW statement_timeout").fetchall() == [("0",)]
            assert connection.execute("SELECT count(*) FROM pg_prepared_statements").fetchall() == [(0,)]


def test_the_clients_limit_holds_where_the_server_has_none(serve: Serve, pooled_url: str) -> None:
    service = serve(
        DATABASE_URL=pooled_url,
        DB_PREPARE="false",
        REDIS_URL="",
        DB_STATEMENT_TIMEOUT_MS="500",
        SEARCH_DEADLINE_S="3",  # until then the service asks whether the charge stands
    )
    key = new_key(service)
    with psycopg.connect(pooled_url) as admin:
        admin.execute("SELECT 1 FROM accounts_apitoken FOR UPDATE")
        answer = search(service, key)
        admin.rollback()
    assert answer.status_code == 500
    assert answer.elapsed.total_seconds() < 8
    assert search(service, key).status_code == 200
    assert json.loads(service.manage("audit_credits", "--json")) == {"disagreements": []}


def test_a_session_pooler_hides_no_server_process(postgres_url: str) -> None:
    """Which process to end when a charge's connection breaks: libpq knows only the pooler's number."""
    with required():
        server = PgBouncer(postgres_url, pool_mode="session").start()
    script = (
        "import os; os.environ['CALLERID_SERVING'] = 'true'; import django; django.setup(); "
        "from accounts.charge_recovery import Session; from django.db import connection; session = Session.current(); "
        "cursor = connection.cursor(); cursor.execute('SELECT pg_backend_pid()'); "
        "libpq = connection.connection.pgconn; "
        "print(session.server_pid == cursor.fetchone()[0], session.server_pid == libpq.backend_pid)"
    )
    try:
        environment = {**os.environ, **generated_keys(), "DATABASE_URL": server.url}
        environment |= {"DJANGO_SETTINGS_MODULE": "callerid_project.settings", "REDIS_URL": ""}
        command = [sys.executable, "-c", script]
        said = subprocess.run(
            command, env=environment, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
        )
    finally:
        server.close()
    assert said.stdout.split() == ["True", "False"]
