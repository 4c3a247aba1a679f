"""The client-side limit of every wait for PostgreSQL. What it does to the service: tests/test_stalls.py."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import OperationalError, connection, transaction

from accounts.sql import NoAnswer, one_row, run

pytestmark = [
    pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite answers in this process"),
    pytest.mark.django_db(transaction=True),
]


def sleep_by_hand() -> None:
    one_row("SELECT pg_sleep(%s)", [60])


def sleep_by_hand_in_a_transaction() -> None:
    with transaction.atomic():
        one_row("SELECT pg_sleep(%s)", [60])


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
def test_no_wait_is_without_limit_and_its_connection_is_not_used_again(
    slow_commit: None, settings: Any, sleep: Callable[[], None], prepared: bool
) -> None:
    settings.DB_PREPARE = prepared
    connection.ensure_connection()
    raw = connection.connection
    settings.DB_MAX_WAIT_S = 0.2  # the client's alone: no `statement_timeout` is as short
    with pytest.raises(OperationalError) as caught:
        sleep()
    assert isinstance(caught.value.__cause__, NoAnswer)
    assert raw.closed
    if connection.connection is raw:  # a transaction's end has dropped it
        assert not connection.is_usable()
        with pytest.raises(OperationalError):  # at once: nothing waits again in this request
            one_row("SELECT 1", [])
    connection.close()
    settings.DB_MAX_WAIT_S = 20
    assert one_row("SELECT %s::int", [7]) == (7,)
    assert connection.connection is not raw


def test_a_connection_that_the_server_has_closed_is_not_given_out() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        assert cursor.fetchall()
    for _ in range(30):
        connection.close()
        assert one_row("SELECT 1", []) == (1,)


def test_without_a_limit_the_client_waits(settings: Any) -> None:
    settings.DB_MAX_WAIT_S = None
    assert one_row("SELECT 1 FROM pg_sleep(0.4)", []) == (1,)
