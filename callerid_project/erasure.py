"""Erasure of numbers everywhere in this service. docs/personal-data.md says what it does not reach."""

from collections.abc import Iterable
from dataclasses import asdict

from django.db import connection

from accounts import erasure as accounts_erasure
from core import db
from monitoring import request_log
from phonebook import erasure as phonebook_erasure


def erase(numbers: Iterable[str], *, block: bool = False) -> dict[str, int | bool | None]:
    """Delete what is known about `numbers`, and remove them from what has to be kept.

    `block`: imports skip them from now on. Can be repeated at any time, also after an interruption. Returns what
    phonebook.erasure and accounts.erasure do, and how many requests of the request log were changed. `overwritten`: on
    SQLite, whether nothing is left in the database's files, which a concurrent reader may prevent; otherwise None.
    """
    numbers = list(dict.fromkeys(numbers))
    return {
        **phonebook_erasure.erase(numbers, block=block),
        **asdict(accounts_erasure.erase(numbers)),
        "requests": request_log.erase(numbers),
        "overwritten": _truncate_wal(),
    }


def _truncate_wal() -> bool | None:
    """Truncate SQLite's write-ahead log, which still has the old pages; in the database file SQLite overwrites what
    it deletes (PRAGMA secure_delete, in the settings). Returns whether it succeeded. PostgreSQL has VACUUM: None.
    """
    if db.VENDOR != "sqlite" or connection.in_atomic_block:
        return None
    return not db.fetch_one("PRAGMA wal_checkpoint(TRUNCATE)")[0]
