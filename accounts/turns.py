"""What takes long lets others have their turn: at writing, and at the database's connections."""

import threading
import time
from contextlib import suppress
from typing import Any

from django.db import connection

SQLITE_PAUSE_S = 0.01


def let_others_write() -> None:
    """Between many transactions. SQLite has one writer at a time, and one that waits asks again only now and then: it
    must meet a gap."""
    if connection.vendor == "sqlite":
        time.sleep(SQLITE_PAUSE_S)


def give_connection_back() -> None:
    """Return this thread's connection to the pool, where threads share one: nobody holds one while something else than
    the database is waited for, a vendor or a slow download."""
    if "pool" in connection.settings_dict["OPTIONS"] and not connection.in_atomic_block:
        connection.close()


class _ClosesAtLast:
    def __init__(self, database: Any) -> None:
        self._connection = database.connection

    def __del__(self) -> None:
        with suppress(Exception):
            self._connection.close()


_of_thread = threading.local()


def close_with_this_thread(connection: Any, **_: Any) -> None:
    """For django.db's signal `connection_created`. Django's connections are cycles of objects: one that a thread kept
    would stay open after its end, until the garbage collector comes by."""
    if "pool" not in connection.settings_dict["OPTIONS"]:
        setattr(_of_thread, f"of {id(connection)}", _ClosesAtLast(connection))
