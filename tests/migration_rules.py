"""Which operations of a migration the service can run through, while the version before serves (CONTRIBUTING.md)."""

from typing import Any

from django.contrib.postgres.operations import AddConstraintNotValid, ValidateConstraint
from django.db import migrations
from django.db.models import NOT_PROVIDED, PositiveBigIntegerField, PositiveIntegerField, PositiveSmallIntegerField

from core.migration_operations import AddIndexConcurrently, AdoptModel, MoveContentTypes

#: They take no lock for longer than a moment, and what the code before reads and writes stays.
SAFE = (
    migrations.CreateModel,
    MoveContentTypes,
    migrations.AlterModelOptions,
    migrations.AlterModelManagers,
    AddConstraintNotValid,
    ValidateConstraint,
)
ON_NEW_TABLES = (migrations.AddField, migrations.AddIndex, migrations.AddConstraint)


def problems(migration: migrations.Migration) -> list[str]:
    """A sentence for each operation that is not known to be safe. `safe_because` of the migration overrules it."""
    if getattr(migration, "safe_because", ""):
        return []
    new_tables: set[str] = set()
    found = []
    for operation in migration.operations:
        if isinstance(operation, migrations.CreateModel) and not isinstance(operation, AdoptModel):
            new_tables.add(operation.name.lower())
        if problem := _problem(operation, migration, new_tables):
            found.append(f"{migration.app_label}.{migration.name}: {operation.describe()}: {problem}")
    return found


def _problem(operation: Any, migration: migrations.Migration, new_tables: set[str]) -> str:
    table = getattr(operation, "model_name", "").lower()
    if isinstance(operation, SAFE) or (isinstance(operation, ON_NEW_TABLES) and table in new_tables):
        return ""
    if isinstance(operation, migrations.SeparateDatabaseAndState) and not operation.database_operations:
        return ""
    if isinstance(operation, AddIndexConcurrently):
        if migration.atomic or len(migration.operations) > 1:
            return "needs a migration of its own, with atomic = False: an interrupted one is repeated as a whole"
        return ""
    if isinstance(operation, migrations.AddField):
        return _problem_of_field(operation.field)
    if isinstance(operation, migrations.AddIndex):
        return "blocks writes while it runs: use core.migration_operations.AddIndexConcurrently"
    if isinstance(operation, migrations.AddConstraint):
        return "checks every row under a lock: use AddConstraintNotValid, and ValidateConstraint in a later migration"
    return "not known to be safe: the version before may use what it changes, or wait for it"


def _problem_of_field(field: Any) -> str:
    if isinstance(field, PositiveBigIntegerField | PositiveIntegerField | PositiveSmallIntegerField):
        return "checks every row under a lock: use IntegerField or BigIntegerField"
    if field.generated:
        return "rewrites the table"
    if field.remote_field is not None and field.db_constraint and not field.many_to_many:
        return "checks every row under a lock: use db_constraint=False"
    if field.unique or field.db_index:
        return "creates an index under a lock: use core.migration_operations.AddIndexConcurrently"
    if not field.null and field.db_default is NOT_PROVIDED and not field.many_to_many:
        return "the version before cannot add rows: use null=True or db_default"
    return ""
