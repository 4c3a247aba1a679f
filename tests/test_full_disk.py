"""Searches fail because the disk of the database is full: they are refused, /readyz says so, and both recover."""

import json
import resource
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import psycopg
import pytest
import requests

from tests.api import NUMBER
from tests.load import wait_for
from tests.service import Service

pytestmark = [pytest.mark.once, pytest.mark.slow]

Serve = Callable[..., Service]


def search(service: Service, key: str, **headers: str) -> requests.Response:
    body = {"api_key": key, "query": NUMBER}
    return requests.post(f"{service.url}/callerid/search", json=body, headers=headers, timeout=30)


def new_key(service: Service) -> str:
    return service.manage("create_token", "disk", "--credits", "1000", "--quiet").strip()


def require_refusal_and_recovery(
    service: Service, key: str, full: Callable[[], AbstractContextManager[None]], sentence: str
) -> None:
    """`full`: a context in which the disk is full."""
    before = search(service, key).json()["credits_remaining"]
    with full():
        statuses: list[int] = []
        while statuses[-1:] != [503] and len(statuses) < 200:
            statuses.append(search(service, key, **{"Idempotency-Key": str(len(statuses))}).status_code)
        answered = statuses.count(200)  # from what was left of the disk
        assert statuses == [200] * answered + [500] * 3 + [503]
        readiness = requests.get(f"{service.url}/readyz", timeout=30)
        assert (readiness.status_code, readiness.json()) == (503, {"detail": sentence})
        assert requests.get(f"{service.url}/livez", timeout=30).status_code == 200
        wait_for(lambda: search(service, key).status_code == 500)  # one search tries again
        assert search(service, key).status_code == 503
    wait_for(lambda: search(service, key).status_code == 200)
    assert requests.get(f"{service.url}/readyz", timeout=30).status_code == 200
    assert search(service, key).json()["credits_remaining"] == before - answered - 2
    assert json.loads(service.manage("audit_credits", "--json")) == {"disagreements": []}


def test_full_disk_of_postgresql(serve: Serve, postgres_url: str) -> None:
    service = serve(DATABASE_URL=postgres_url, REDIS_URL="", RATE_LIMIT="1000/m")

    @contextmanager
    def full() -> Iterator[None]:
        """What PostgreSQL says when it cannot extend the ledger's file. Claims still fit into theirs."""
        with psycopg.connect(postgres_url, autocommit=True) as admin:
            admin.execute(
                "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
                " RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = 'disk_full'; END $$"
            )
            admin.execute("CREATE TRIGGER a BEFORE INSERT ON accounts_creditentry FOR EACH ROW EXECUTE FUNCTION fail()")
            yield
            admin.execute("DROP TRIGGER a ON accounts_creditentry")

    require_refusal_and_recovery(service, new_key(service), full, "The disk of the database is full")


def test_full_disk_of_sqlite(serve: Serve) -> None:
    service = serve(DATABASE_URL="", REDIS_URL="", RATE_LIMIT="1000/m")
    key = new_key(service)
    assert service.process is not None
    pid, wal = service.process.pid, Path(service.env["CALLERID_DATA_DIR"], "callerid.sqlite3-wal")

    @contextmanager
    def full() -> Iterator[None]:
        """The write-ahead log cannot grow."""
        before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (wal.stat().st_size, before[1]))
        yield
        resource.prlimit(pid, resource.RLIMIT_FSIZE, before)

    require_refusal_and_recovery(service, key, full, "Searches failed because of the database")
