"""Headers, errors and health checks of every path."""

import asyncio
import json
import logging
import re
import time
from typing import Any

import pytest
from django.db import DatabaseError, connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from callerid_project.logging import JSONFormatter, TextFormatter, request_id
from callerid_project.middleware import request_id_for
from core import db as sql
from core import schema_state
from core.postgresql import replication
from lookup import views
from lookup.search import search
from monitoring.health import probes
from tests.api import NUMBER, Integrator
from tests.request_ids import KEPT, MALFORMED, SECRET


@pytest.mark.parametrize("sent", ["", "ü", *MALFORMED, *SECRET])
def test_a_malformed_or_secret_request_id_is_replaced(integrator: Integrator, sent: str) -> None:
    given = integrator.search(X_Request_ID=sent).headers["X-Request-ID"]
    assert given != sent
    assert len(given) == 37
    assert integrator.token.entries.get(kind="search").request_id == given


@pytest.mark.parametrize("sent", KEPT)
def test_request_id_is_the_same_in_answer_log_and_ledger(integrator: Integrator, sent: str) -> None:
    assert integrator.search(X_Request_ID=sent).headers["X-Request-ID"] == sent
    assert integrator.token.entries.get(kind="search").request_id == sent
    assert f' request_id={sent} status=200\n{{"time":' in logged_with(sent)
    assert f' "request_id": "{sent}", "message": "status=200"' in logged_with(sent)


def logged_with(sent: str) -> str:
    """As text, and as JSON."""
    reset = request_id.set(sent)
    record = logging.LogRecord("x", logging.INFO, __file__, 1, "status=200", (), None)
    lines = [formatter.format(record) for formatter in (TextFormatter(), JSONFormatter())]
    request_id.reset(reset)
    return "\n".join(lines)


@pytest.mark.parametrize("sent", SECRET)
def test_the_log_masks_what_a_request_id_may_not_hold(sent: str) -> None:
    assert sent not in logged_with(sent)
    assert not re.search("[0-9]{7}", logged_with(sent))


def test_new_request_ids_may_be_sent_back() -> None:
    for _ in range(1000):
        made = request_id_for("")
        assert request_id_for(made) == made


def test_new_request_ids_are_unique_and_ordered_by_time(integrator: Integrator) -> None:
    given = []
    for _ in range(3):
        given += [integrator.search().headers["X-Request-ID"] for _ in range(3)]
        time.sleep(0.002)
    assert len(set(given)) == 9
    times = [one[:13] for one in given]
    assert times == sorted(times)
    assert times[0] < times[-1]


@pytest.mark.parametrize("path", ["/callerid/search", "/nowhere", "/livez", "/schema", "/docs", "/admin/login/"])
def test_every_response_has_the_common_headers(client: Client, db: None, path: str) -> None:
    headers = client.get(path).headers
    assert headers["X-Request-ID"]
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert "no-store" in headers["Cache-Control"]


def test_a_bad_host_is_json_400_and_not_echoed(client: Client) -> None:
    response = client.post("/callerid/search", "{}", content_type="application/json", headers={"Host": "canary.test"})
    assert (response.status_code, response.json()) == (400, {"detail": "Bad request"})
    assert response.headers["X-Request-ID"]


def test_an_unexpected_error_is_json_500_logged_without_message(
    integrator: Integrator, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def explode(number: str) -> None:
        raise KeyError(f"secret {number}")

    monkeypatch.setattr(views, "search", explode)
    response = integrator.search()
    assert (response.status_code, response.json()) == (500, {"detail": "Internal server error"})
    assert "RateLimit" in response.headers
    assert integrator.balance() == 10
    record = next(record for record in caplog.records if record.message == "unhandled error")
    assert record.exc_info is not None
    assert "secret" not in record.message


def test_search_without_time_for_its_charge_is_503(
    integrator: Integrator, settings: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    settings.SEARCH_DEADLINE_S = 0.5

    async def slow(*args: Any) -> Any:
        result = await search(*args)
        await asyncio.sleep(1.1)
        return result

    monkeypatch.setattr(views, "search", slow)
    response = integrator.search()
    assert (response.status_code, response.json()) == (503, {"detail": "Service overloaded"})
    assert response.headers["Retry-After"] == "1"
    assert integrator.balance() == 10
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


def test_an_error_outside_views_is_json_500_and_logged(
    client: Client, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def explode(*args: Any) -> None:
        raise RuntimeError

    client.raise_request_exception = False
    monkeypatch.setattr(views.SearchView, "finalize_response", explode)
    response = client.post("/callerid/search", "{}", content_type="application/json")
    assert (response.status_code, response.json()) == (500, {"detail": "Internal server error"})
    assert [record.getMessage() for record in caplog.records if record.exc_info] == ["unhandled error"]


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/docs", "/schema", "/"])
def test_another_method_is_json_405_on_every_path(db: None, path: str) -> None:
    response = Client(enforce_csrf_checks=True).post(path)
    assert response.status_code == 405
    assert response.json() == {"detail": 'Method "POST" not allowed.'}


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/docs", "/schema", "/"])
def test_an_unknown_method_is_not_echoed_on_any_path(client: Client, path: str) -> None:
    response = client.generic("CANARY", path)
    assert (response.status_code, response.json()) == (405, {"detail": "Method not allowed."})


def test_livez_does_not_query_the_database(client: Client) -> None:
    # Without the `db` mark any query would fail the test.
    assert client.get("/livez").json() == {"status": "ok"}


def test_readyz_is_ready_with_the_database_and_its_migrations(client: Client, db: None) -> None:
    assert (client.get("/readyz").status_code, client.get("/readyz/").status_code) == (200, 200)


def test_readyz_is_503_without_a_migration(client: Client, db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    known = schema_state._known_migrations() | {("accounts", "9999_not_applied")}
    monkeypatch.setattr(schema_state, "_known_migrations", lambda: known)
    response = client.get("/readyz")
    assert response.status_code == 503
    assert response.json() == {"detail": "Migrations are not applied"}


def test_readyz_is_503_without_the_database(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(*args: Any) -> None:
        raise DatabaseError("password=hunter2")

    monkeypatch.setattr(sql, "afetch", refuse)
    response = client.get("/readyz")
    assert (response.status_code, response.json()) == (503, {"detail": "The database cannot be reached"})


def test_readyz_queries_the_database_at_most_once_a_second(
    client: Client, db: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with CaptureQueriesContext(connection) as ran:
        assert [client.get("/readyz").status_code for _ in range(3)] == [200] * 3
        once = len(ran)
        monkeypatch.setattr(probes.Readiness, "MAX_AGE_S", 0.0)
        assert client.get("/readyz").status_code == 200
    assert len(ran) == 2 * once > 0


def test_concurrent_readyz_requests_do_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    async def check() -> None:
        answer = asyncio.Event()

        async def fetch_slowly(*args: Any) -> list[Any]:
            await answer.wait()
            return []

        async def no_problem() -> None: ...

        monkeypatch.setattr(sql, "afetch", fetch_slowly)
        monkeypatch.setattr(schema_state, "migration_problem", lambda rows: None)
        monkeypatch.setattr(schema_state, "schema_problem", lambda rows: None)
        monkeypatch.setattr(replication, "aobserve_commits", no_problem)
        first = asyncio.create_task(probes.readiness.problem())
        await asyncio.sleep(0)
        assert await probes.readiness.problem() == "Not checked yet"
        answer.set()
        assert await first is None
        assert await probes.readiness.problem() is None

    asyncio.run(check())


def test_a_search_leaves_one_masked_log_line(integrator: Integrator, caplog: pytest.LogCaptureFixture) -> None:
    integrator.search(X_Request_ID="call-42", Idempotency_Key="memorable")
    (line,) = [record.getMessage() for record in caplog.records if record.name == "callerid.request"]
    assert "number=49********42" in line
    assert "source_a=found" in line
    assert not any(word in caplog.text for word in (NUMBER, integrator.key, "Local Name", "memorable"))


def test_paths_sent_by_clients_are_not_logged(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    client.get("/Alice/493023125042?key=eyJhbGciOiJIUzI1NiJ9.e30.x")
    assert not any(word in caplog.text for word in ("Alice", "4930", "eyJ"))


def test_refused_searches_do_not_echo_the_body(integrator: Integrator) -> None:
    for body in ({"api_key": "canary"}, {"api_key": integrator.key, "query": "canary"}, ["canary"]):
        assert "canary" not in integrator.post(json.dumps(body)).content.decode()
