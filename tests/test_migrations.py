"""Migrations are additive and lock no table for long; what would not be is refused."""

from typing import Any

import pytest
from django.apps import apps
from django.contrib.postgres import operations as postgresql
from django.db import migrations, models
from django.db.migrations.loader import MigrationLoader

from core.addons import Addon
from core.migration_operations import AddIndexConcurrently, AdoptModel, MoveContentTypes
from tests.migration_rules import problems

pytestmark = pytest.mark.once

OURS = ("accounts", "console", "lookup", "monitoring", "phonebook")
INDEX = models.Index(fields=["created_at"], name="ledger_later")
CHECK = models.CheckConstraint(condition=models.Q(amount__lt=10**9), name="ledger_small")


def migration(*operations: Any, atomic: bool = True) -> migrations.Migration:
    made = type("Migration", (migrations.Migration,), {"operations": list(operations), "atomic": atomic})
    return made("9999_further", "accounts")


def column(**options: Any) -> migrations.AddField:
    return migrations.AddField("creditentry", "note", models.CharField(max_length=9, **options))


def test_every_migration_of_ours_is_safe() -> None:
    migrations = MigrationLoader(None).disk_migrations
    assert {app for app, _ in migrations} > set(OURS)
    addons = {each.label for each in apps.get_app_configs() if isinstance(each, Addon)}
    for (app, _), each in migrations.items():
        if app in addons or (app in OURS and not each.initial):
            assert problems(each) == []


@pytest.mark.parametrize(
    ("operation", "problem"),
    [
        (column(), "null=True or db_default"),
        (column(default=""), "null=True or db_default"),
        (column(null=True, unique=True), "creates an index under a lock"),
        (column(null=True, db_index=True), "creates an index under a lock"),
        (migrations.AddIndex("creditentry", INDEX), "AddIndexConcurrently"),
        (AddIndexConcurrently("creditentry", INDEX), "atomic = False"),
        (migrations.AddConstraint("creditentry", CHECK), "AddConstraintNotValid"),
        (
            migrations.AddField("creditentry", "by", models.ForeignKey("auth.User", models.PROTECT, null=True)),
            "db_constraint=False",
        ),
        (migrations.AddField("creditentry", "size", models.PositiveIntegerField(db_default=0)), "use IntegerField"),
        (migrations.RenameField("creditentry", "amount", "credits"), "not known to be safe"),
        (migrations.RemoveField("creditentry", "reference"), "not known to be safe"),
        (migrations.AlterField("creditentry", "amount", models.BigIntegerField()), "not known to be safe"),
        (migrations.RenameModel("CreditEntry", "LedgerEntry"), "not known to be safe"),
        (migrations.RunSQL("VACUUM FULL accounts_creditentry"), "not known to be safe"),
    ],
)
def test_unsafe_migration_is_refused(operation: Any, problem: str) -> None:
    [found] = problems(migration(operation))
    assert found.startswith("accounts.9999_further: ")
    assert problem in found


def test_additive_migration_is_accepted() -> None:
    table = migrations.CreateModel("Later", [("id", models.BigAutoField(primary_key=True))])
    assert not problems(migration(column(null=True), column(db_default=""), table, migrations.AddIndex("later", INDEX)))
    index = AddIndexConcurrently("creditentry", INDEX)
    assert not problems(migration(index, atomic=False))
    assert problems(migration(column(null=True), index, atomic=False))
    assert not problems(migration(postgresql.AddConstraintNotValid("creditentry", CHECK)))
    assert not problems(
        migration(migrations.SeparateDatabaseAndState(state_operations=[migrations.DeleteModel("Later")]))
    )
    justified = migration(migrations.RunSQL("SELECT 1"))
    justified.safe_because = "it changes nothing"  # type: ignore[attr-defined]
    assert not problems(justified)


def test_adopted_table_may_be_one_that_is_written() -> None:
    adopted = AdoptModel("Later", [("id", models.BigAutoField(primary_key=True))])
    assert not problems(migration(adopted, MoveContentTypes("lookup", ["later"])))
    assert problems(migration(adopted, migrations.AddIndex("later", INDEX)))
    table = migrations.DeleteModel("Later")
    assert problems(migration(migrations.SeparateDatabaseAndState([table], [table])))
