"""The client-side time limit of every wait for PostgreSQL. Its effect on the service: tests/test_stalls.py."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import OperationalError, connection, transaction

from core.db import QueryTimeout, fetch_one, run

pytestmark = [
    pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite answers in this process"),
    pytest.mark.django_db(transaction=True),
]


def sleep_by_hand() -> None:
    fetch_one("SELECT pg_sleep(%s)", [60])


def sleep_by_hand_in_a_transaction() -> None:
    with transaction.atomic():
        fetch_one("SELECT pg_sleep(%s)", [60])


def sleep_by_cursor() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_sleep(60)")


def sleep_in_commit() -> None:
    with transaction.atomic():
        run("INSERT INTO slow_commit VALUES (%s)", [1])


@pytest.fixture
def slow_commit() -> Any:
    with connection.cursor() as cursor:
        cursor.execute(
            """
            CREATE TABLE slow_commit (id int);
            CREATE FUNCTION slow_commit() RETURNS trigger LANGUAGE plpgsql AS
                $$ BEGIN PERFORM pg_sleep(60); RETURN NULL; END $$;
            CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON slow_commit DEFERRABLE INITIALLY DEFERRED
                FOR EACH ROW EXECUTE FUNCTION slow_commit()
            """
        )
    yield
    connection.close()
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event = 'PgSleep'")
        cursor.execute("DROP TABLE slow_commit; DROP FUNCTION slow_commit")


@pytest.mark.parametrize(
    "sleep", [sleep_by_hand, sleep_by_hand_in_a_transaction, sleep_by_cursor, sleep_in_commit], ids=lambda f: f.__name__
)
@pytest.mark.parametrize("prepared", [True, False])
def test_every_wait_is_limited_and_closes_its_connection(
    slow_commit: None, settings: Any, sleep: Callable[[], None], prepared: bool
) -> None:
    settings.DB_PREPARE = prepared
    connection.ensure_connection()
    raw = connection.connection
    settings.DB_MAX_WAIT_S = 0.2  # only the client's: no `statement_timeout` is as short
    with pytest.raises(OperationalError) as caught:
        sleep()
    assert isinstance(caught.value.__cause__, QueryTimeout)
    assert raw.closed
    if connection.connection is raw:  # otherwise the end of the transaction has dropped it
        assert not connection.is_usable()
        with pytest.raises(OperationalError):  # at once, without another wait in this request
            fetch_one("SELECT 1", [])
    connection.close()
    settings.DB_MAX_WAIT_S = 20
    assert fetch_one("SELECT %s::int", [7]) == (7,)
    assert connection.connection is not raw


def test_pool_gives_out_no_connection_closed_by_the_server() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        assert cursor.fetchall()
    for _ in range(30):
        connection.close()
        assert fetch_one("SELECT 1", []) == (1,)


def test_client_waits_without_a_limit(settings: Any) -> None:
    settings.DB_MAX_WAIT_S = None
    assert fetch_one("SELECT 1 FROM pg_sleep(0.4)", []) == (1,)
