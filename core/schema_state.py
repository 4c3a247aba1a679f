"""Whether the database has the migrations and the schema that this version needs. A rolling upgrade migrates first: the
database may have more than the code."""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from django.apps import apps
from django.conf import settings
from django.db import DatabaseError, connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.db.models import UniqueConstraint

from core import db
from core.addons import Addon
from core.commands import command_line

NOT_MIGRATED = "Migrations are not applied"
TOO_OLD = "The database was created before version 0.1.0 and cannot be upgraded (docs/upgrading.md)"
#: The migrations that are applied, by app and name.
APPLIED = "SELECT app, name FROM django_migrations"
#: One row for each column (`table.column`), constraint (not on SQLite) and trigger of the tables that statements find.
SCHEMA = {
    "postgresql": """
        SELECT relname || '.' || attname FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid
        WHERE pg_table_is_visible(attrelid) AND relnamespace <> 'pg_catalog'::regnamespace
        AND relkind IN ('r', 'p') AND NOT relispartition AND attnum > 0 AND NOT attisdropped
        UNION ALL SELECT conname FROM pg_constraint WHERE conrelid <> 0 AND pg_table_is_visible(conrelid)
        UNION ALL SELECT tgname FROM pg_trigger
        WHERE NOT tgisinternal AND tgenabled <> 'D' AND pg_table_is_visible(tgrelid)
    """,
    "sqlite": """
        SELECT tables.name || '.' || columns.name
        FROM sqlite_master AS tables, pragma_table_info(tables.name) AS columns WHERE tables.type = 'table'
        UNION ALL SELECT name FROM sqlite_master WHERE type = 'trigger'
    """,
}[db.VENDOR]

#: Columns with phone numbers, in clear text or as a hash, or with files.
NUMBER_COLUMNS = ("number", "number_hash", "digits", "content")

Applied = Iterable[tuple[str, str]]


def migration_problem(applied: Applied) -> str | None:
    """TOO_OLD, NOT_MIGRATED or None. `applied`: the rows of APPLIED."""
    applied = {(app, name) for app, name in applied}
    if not _known_migrations() - applied:
        return None
    unknown = {app for app, _ in applied - _known_migrations()}
    return TOO_OLD if unknown & _our_apps() else NOT_MIGRATED


def schema_problem(schema: Iterable[tuple[str]]) -> str | None:
    """A sentence about what the database lacks although its migrations are applied, or None. `schema`: the rows of
    SCHEMA. Until 0.1.0 initial migrations were rewritten, so a database may have all the names and another schema."""
    if not (missing := sorted(_needed_schema() - {name for (name,) in schema})):
        return None
    more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
    return f"The database's schema lacks {', '.join(missing[:3])}{more} (docs/upgrading.md)"


def applied_migrations() -> Applied:
    """Also before the first `migrate`. Raises DatabaseError."""
    return MigrationRecorder(connection).applied_migrations()


def problem() -> str | None:
    """What `migration_problem`, `schema_problem` or `numbers_problem` finds. Raises DatabaseError."""
    applied = applied_migrations()
    if found := migration_problem(applied):
        return found
    schema = db.fetch(SCHEMA)
    return schema_problem(schema) or numbers_problem(applied, schema)


def number_tables(applied: Applied, schema: Iterable[tuple[str]]) -> Iterator[tuple[str, str]]:
    """Tables with columns of phone numbers that belong to no model, so to an add-on that ADDONS does not have, and for
    each column the statement that returns a row if one is set. `applied`, `schema`: the rows of APPLIED and SCHEMA.

    None while the database is not that of this version: a migration may still drop a table, and a newer version may use
    it. Tables of other programs are not named after an app that was migrated here."""
    applied = {(app, name) for app, name in applied}
    unknown = {app for app, _ in applied - _known_migrations()}
    if _known_migrations() - applied or unknown & _our_apps():
        return
    used = {model._meta.db_table for model in apps.get_models(include_auto_created=True)}
    prefixes = tuple(f"{app}_" for app, _ in applied)
    quote = connection.ops.quote_name
    for (name,) in schema:
        table, _, column = name.rpartition(".")
        if column in NUMBER_COLUMNS and table.startswith(prefixes) and table not in used:
            is_set = f"SELECT 1 FROM {quote(table)} WHERE {quote(column)} IS NOT NULL"  # noqa: S608
            yield table, f"SELECT 1 WHERE EXISTS ({is_set})"


def numbers_problem(applied: Applied, schema: Iterable[tuple[str]]) -> str | None:
    """A sentence about those of `number_tables` that have numbers, or None. Raises DatabaseError."""
    return describe_numbers(table for table, is_set in number_tables(applied, schema) if db.fetch(is_set))


def describe_numbers(tables: Iterable[str]) -> str | None:
    """The sentence about these tables; None if there are none."""
    if not (names := ", ".join(sorted(set(tables)))):
        return None
    return (
        f"No add-on in ADDONS uses {names}, so `forget` would not erase the phone numbers there: add the add-on to "
        "ADDONS, or see Leave one out in docs/addons.md"
    )


def advice(found: str) -> str:
    """What to do about what `problem` found; empty if it says that itself."""
    return f"Run {command_line('migrate')}." if found == NOT_MIGRATED else ""


def explanation() -> str:
    """A sentence about why a command may have failed in the database, or an empty string."""
    try:
        applied = set(applied_migrations())
    except DatabaseError:
        return ""
    if found := migration_problem(applied):
        return f"{found}. {advice(found)}".rstrip()
    if newer := sorted(f"{app}.{name}" for app, name in applied - _known_migrations() if app in _our_apps()):
        return f"The database was migrated by a newer version ({', '.join(newer)}): run the command with that version."
    return ""


@lru_cache(maxsize=1)
def _known_migrations() -> frozenset[tuple[str, str]]:
    return frozenset(MigrationLoader(None).disk_migrations)


@lru_cache(maxsize=1)
def _our_apps() -> frozenset[str]:
    """The apps that stand beside manage.py, and the add-ons that are chosen."""
    return frozenset(
        each.label
        for each in apps.get_app_configs()
        if isinstance(each, Addon) or Path(each.path).resolve().parent == settings.BASE_DIR
    )


@lru_cache(maxsize=1)
def _needed_schema() -> frozenset[str]:
    """The names that SCHEMA must have, of our tables: of columns, of triggers, and of the constraints by which rows are
    added or changed (ON CONFLICT). An installation may replace others (docs/scale.md)."""
    needed = set[str]()
    for model in apps.get_models():
        meta: Any = model._meta
        if meta.app_label in _our_apps() and not meta.proxy:
            needed |= {f"{meta.db_table}.{field.column}" for field in meta.local_concrete_fields}
            needed |= set(getattr(model, "TRIGGERS", {}).get(db.VENDOR, ()))
            if db.VENDOR == "postgresql":
                unique = (each for each in meta.constraints if isinstance(each, UniqueConstraint))
                # Django makes an index of the others.
                needed |= {each.name for each in unique if each.fields and each.condition is None}
    return frozenset(needed)
