"""What takes long lets others have their turn: at writing, and at the database's connections."""

import time

from django.db import connection

SQLITE_PAUSE_S = 0.01


def let_others_write() -> None:
    """Between many transactions. SQLite has one writer at a time, and one that waits asks again only now and then: it
    must meet a gap."""
    if connection.vendor == "sqlite":
        time.sleep(SQLITE_PAUSE_S)


def give_connection_back() -> None:
    """Return this thread's connection to the pool, which the serving process has on PostgreSQL: nobody holds one while
    something else than the database is waited for, a vendor or a slow download."""
    if "pool" in connection.settings_dict["OPTIONS"] and not connection.in_atomic_block:
        connection.close()
