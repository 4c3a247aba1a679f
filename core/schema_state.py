"""Whether the database has the migrations and the schema that this version needs. A rolling upgrade migrates first: the
database may have more than the code."""

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from django.apps import apps
from django.db import DatabaseError, connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.db.models import UniqueConstraint

from core import db

NOT_MIGRATED = "Migrations are not applied: run manage.py migrate"
#: Begins the sentence of `mismatch`.
MISMATCH = "The database was created by an incompatible version"
#: The migrations that are applied, by app and name.
APPLIED = "SELECT app, name FROM django_migrations"
#: One row for each column (`table.column`), constraint (not on SQLite) and trigger.
SCHEMA = {
    "postgresql": """
        SELECT relname || '.' || attname FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
        WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p')
        AND attnum > 0 AND NOT attisdropped
        UNION ALL SELECT conname FROM pg_constraint WHERE connamespace = current_schema()::regnamespace
        UNION ALL SELECT tgname FROM pg_trigger WHERE NOT tgisinternal
    """,
    "sqlite": """
        SELECT tables.name || '.' || columns.name
        FROM sqlite_master AS tables, pragma_table_info(tables.name) AS columns WHERE tables.type = 'table'
        UNION ALL SELECT name FROM sqlite_master WHERE type = 'trigger'
    """,
}[db.VENDOR]


def missing_from(applied: Iterable[tuple[str, str]]) -> frozenset[tuple[str, str]]:
    """Those that are not among `applied`, the rows of APPLIED."""
    return _known_migrations() - {(app, name) for app, name in applied}


def missing_migrations() -> frozenset[tuple[str, str]]:
    """Those that are not applied. Raises DatabaseError."""
    return _known_migrations() - _applied()


def mismatch(schema: Iterable[tuple[str]]) -> str | None:
    """A sentence about what the database lacks although its migrations are applied, or None. `schema`: the rows of
    SCHEMA. Before 0.1.0, migrations were made anew, under the same names."""
    if not (missing := sorted(_needed_schema() - {name for (name,) in schema})):
        return None
    more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
    return f"{MISMATCH}: it lacks {', '.join(missing[:3])}{more}. Create it again (docs/upgrading.md)."


def problem() -> str | None:
    """NOT_MIGRATED, `mismatch` or None. Raises DatabaseError."""
    return NOT_MIGRATED if missing_migrations() else mismatch(db.fetch(SCHEMA))


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


@lru_cache(maxsize=1)
def _needed_schema() -> frozenset[str]:
    """The names that SCHEMA must have: of columns, of triggers, and of the constraints by which rows are added or
    changed (ON CONFLICT). An installation may replace others (docs/scale.md)."""
    needed = set[str]()
    for model in apps.get_models(include_auto_created=True):
        meta: Any = model._meta
        if meta.managed and not meta.proxy:
            needed |= {f"{meta.db_table}.{field.column}" for field in meta.local_concrete_fields}
            needed |= set(getattr(model, "TRIGGERS", {}).get(db.VENDOR, ()))
            if db.VENDOR == "postgresql":
                unique = (each for each in meta.constraints if isinstance(each, UniqueConstraint))
                needed |= {each.name for each in unique if each.condition is None}
    return frozenset(needed)
