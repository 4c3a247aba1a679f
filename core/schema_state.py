"""Which migrations the database and this version of the code have. A rolling upgrade migrates first: the database may
have more than the code."""

from collections.abc import Iterable
from functools import lru_cache

from django.db import DatabaseError, connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

NOT_MIGRATED = "Migrations are not applied: run manage.py migrate"
#: The migrations that are applied, by app and name.
APPLIED = "SELECT app, name FROM django_migrations"


def missing_from(applied: Iterable[tuple[str, str]]) -> frozenset[tuple[str, str]]:
    """Those that are not among `applied`, the rows of APPLIED."""
    return _known_migrations() - {(app, name) for app, name in applied}


def missing_migrations() -> frozenset[tuple[str, str]]:
    """Those that are not applied. Raises DatabaseError."""
    return _known_migrations() - _applied()


def explanation() -> str:
    """A sentence about why a command may have failed in the database, or an empty string."""
    try:
        applied = _applied()
    except DatabaseError:
        return ""
    if _known_migrations() - applied:
        return "Run `./run manage migrate`."
    apps = {app for app, _ in _known_migrations()}
    if newer := sorted(f"{app}.{name}" for app, name in applied - _known_migrations() if app in apps):
        return f"The database was migrated by a newer version ({', '.join(newer)}): run the command with that version."
    return ""


def _applied() -> frozenset[tuple[str, str]]:
    return frozenset(MigrationRecorder(connection).applied_migrations())


@lru_cache(maxsize=1)
def _known_migrations() -> frozenset[tuple[str, str]]:
    return frozenset(MigrationLoader(None).disk_migrations)
