"""Whose turn it is: what a thread keeps, and when it lets go."""

import gc
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection

from accounts.turns import close_with_this_thread, give_connection_back


def is_closed(raw: Any) -> bool:
    """psycopg tells; of sqlite3's no cursor can be had any more."""
    if hasattr(raw, "closed"):
        return bool(raw.closed)
    try:
        raw.cursor()
    except Exception:
        return True
    return False


@pytest.fixture
def no_garbage_collector() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


def test_what_a_thread_kept_is_closed_when_it_ends_but_for_what_is_the_pools(
    transactional_db: None, no_garbage_collector: None
) -> None:
    connections: list[Any] = []

    def work() -> None:
        connection.ensure_connection()
        close_with_this_thread(connection)
        connections.append(connection.connection)
        assert not is_closed(connection.connection)
        give_connection_back()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(20)
    assert [is_closed(raw) for raw in connections] == ["pool" not in connection.settings_dict["OPTIONS"]]
