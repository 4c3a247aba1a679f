"""Tables and content types of the kernel are adopted with all that refers to them."""

from typing import Any

import pytest
from django.apps import apps
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.auth.models import Group, Permission, User
from django.contrib.contenttypes.models import ContentType
from django.db import connection, migrations, models
from django.db.migrations.exceptions import IrreversibleError
from django.db.migrations.state import ProjectState

from core.migration_operations import AdoptModel, MoveContentTypes, move_content_types

FIELDS: list[tuple[str, models.Field]] = [
    ("id", models.BigAutoField(primary_key=True)),
    ("number", models.BigIntegerField(null=True)),
]
INDEX = models.Index(fields=["number"], name="kept_number")
OPTIONS = {"db_table": "before_kept", "indexes": [INDEX]}


def run(operation: Any, state: ProjectState | None = None) -> ProjectState:
    """As part of a migration of the app `after`; returns the state after it."""
    from_state = state or ProjectState()
    to_state = from_state.clone()
    operation.state_forwards("after", to_state)
    with connection.schema_editor(atomic=connection.vendor == "postgresql") as editor:
        operation.database_forwards("after", editor, from_state, to_state)
    return to_state


def indexes() -> set[str]:
    with connection.cursor() as cursor:
        return set(connection.introspection.get_constraints(cursor, "before_kept"))


@pytest.mark.django_db(transaction=True)
def test_table_is_created_unless_it_exists() -> None:
    model = run(AdoptModel("Kept", FIELDS, OPTIONS)).apps.get_model("after", "Kept")
    try:
        assert "kept_number" in indexes()
        model.objects.create(number=12125550100)
        state = run(AdoptModel("Kept", FIELDS, OPTIONS))
        assert state.apps.get_model("after", "Kept").objects.get().number == 12125550100
    finally:
        with connection.schema_editor() as editor:
            editor.delete_model(model)


def test_adoption_is_not_reversed(db: None) -> None:
    adopted = AdoptModel("Kept", FIELDS, OPTIONS)
    made = type("Migration", (migrations.Migration,), {"operations": [adopted]})("0001_initial", "after")
    with connection.cursor() as cursor:
        cursor.execute("CREATE TABLE before_kept (id integer)")
    with pytest.raises(IrreversibleError):
        made.unapply(ProjectState(), None)
    with pytest.raises(IrreversibleError):
        adopted.database_backwards("after", None, None, None)
    assert "before_kept" in connection.introspection.table_names()


class Kept:
    """A model's content type and permissions, and a group, a user and an entry of the History that refer to them."""

    def __init__(self, app: str, codenames: tuple[str, ...]) -> None:
        self.content_type = ContentType.objects.create(app_label=app, model="kept")
        self.permissions = [
            Permission.objects.create(content_type=self.content_type, codename=name, name=name) for name in codenames
        ]
        self.group = Group.objects.create(name=f"group of {app}")
        self.group.permissions.set(self.permissions)
        self.user = User.objects.create_user(f"user of {app}")
        self.user.user_permissions.set(self.permissions)
        self.entry = LogEntry.objects.create(
            user=self.user, content_type=self.content_type, object_id="1", action_flag=CHANGE
        )


def holders(codename: str) -> tuple[set[str], set[str]]:
    """The groups and users who have after.<codename>, which is there once."""
    permission = Permission.objects.get(codename=codename)
    assert permission.content_type.app_label == "after"
    users = {each.username for each in User.objects.all() if each.has_perm(f"after.{codename}")}
    return {each.name for each in permission.group_set.all()}, users


def move() -> None:
    move_content_types(apps, "before", "after", ("kept", "other"), using="default")


def test_content_type_is_renamed_with_what_refers_to_it(db: None) -> None:
    kept = Kept("before", ("view_kept", "add_kept"))
    other = ContentType.objects.create(app_label="before", model="stays")
    move()
    moved = ContentType.objects.get(model="kept")
    assert (moved.pk, moved.app_label) == (kept.content_type.pk, "after")
    assert ContentType.objects.get_for_id(moved.pk).app_label == "after"  # not a cached one
    assert holders("view_kept") == holders("add_kept") == ({"group of before"}, {"user of before"})
    assert LogEntry.objects.get().content_type == moved
    other.refresh_from_db()
    assert other.app_label == "before"


@pytest.mark.django_db(transaction=True)
def test_content_type_that_is_there_again_is_merged() -> None:
    old, new = Kept("before", ("view_kept", "add_kept")), Kept("after", ("view_kept", "change_kept"))
    old.user.user_permissions.add(*new.permissions)  # who has both keeps one
    move()
    assert ContentType.objects.get(model="kept") == new.content_type
    both = {"group of before", "group of after"}, {"user of before", "user of after"}
    assert holders("view_kept") == both
    assert holders("add_kept") == ({"group of before"}, {"user of before"})
    assert holders("change_kept") == ({"group of after"}, {"user of before", "user of after"})
    assert {each.content_type for each in LogEntry.objects.all()} == {new.content_type}
    move()
    assert holders("view_kept") == both


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("is_there_again", [False, True])
def test_migration_moves_content_types(is_there_again: bool) -> None:
    kept = Kept("before", ("view_kept",))
    if is_there_again:
        Kept("after", ("view_kept",))
    run(MoveContentTypes("before", ["kept"]), ProjectState.from_apps(apps))
    assert ContentType.objects.get(model="kept").app_label == "after"
    groups, users = holders("view_kept")
    assert kept.group.name in groups
    assert kept.user.username in users


def test_migration_of_a_new_database_moves_nothing(db: None) -> None:
    before = set(ContentType.objects.values_list("app_label", "model"))
    move()
    assert set(ContentType.objects.values_list("app_label", "model")) == before
