"""Migration operations that a service can run through: see CONTRIBUTING.md."""

from collections.abc import Iterable
from typing import Any

from django.contrib.postgres.operations import AddIndexConcurrently as PostgreSQLAddIndexConcurrently
from django.db import migrations, transaction
from django.db.migrations.exceptions import IrreversibleError
from django.db.migrations.operations.base import Operation


class AddIndexConcurrently(PostgreSQLAddIndexConcurrently):
    """Adds an index while the table is read and written, in a migration with `atomic = False`.

    May be repeated: an interrupted attempt leaves an invalid index, which is dropped first. Waits for transactions that
    are older, however long, because nothing waits for it meanwhile. On SQLite an ordinary index.
    """

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        if schema_editor.connection.vendor != "postgresql":
            return migrations.AddIndex.database_forwards(self, app_label, schema_editor, from_state, to_state)
        self._ensure_not_in_transaction(schema_editor)
        with schema_editor.connection.cursor() as cursor:
            cursor.execute("SELECT current_setting('lock_timeout')")
            [lock_timeout] = cursor.fetchone()
        schema_editor.execute("SET lock_timeout = 0", params=None)
        schema_editor.execute(
            f"DROP INDEX CONCURRENTLY IF EXISTS {schema_editor.quote_name(self.index.name)}", params=None
        )
        super().database_forwards(app_label, schema_editor, from_state, to_state)
        schema_editor.execute(f"SET lock_timeout = '{lock_timeout}'", params=None)
        return None

    def database_backwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        if schema_editor.connection.vendor != "postgresql":
            return migrations.AddIndex.database_backwards(self, app_label, schema_editor, from_state, to_state)
        return super().database_backwards(app_label, schema_editor, from_state, to_state)


class AdoptModel(migrations.CreateModel):
    """Creates the model's table with all that belongs to it, unless there is one: then it must have all of that.

    For an add-on whose model was one of the kernel; `Meta.db_table` has the name from then. Irreversible, because the
    rows are older than the migration.
    """

    reversible = False

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        model = to_state.apps.get_model(app_label, self.name)
        if model._meta.db_table not in schema_editor.connection.introspection.table_names():
            super().database_forwards(app_label, schema_editor, from_state, to_state)

    def database_backwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        raise IrreversibleError(f"{self.describe()}: it may have been the kernel's before.")

    def describe(self) -> str:
        return f"Adopt model {self.name}"


class MoveContentTypes(Operation):
    """`move_content_types` to the app of the migration, which depends on contenttypes, auth and admin. Irreversible."""

    reversible = False

    def __init__(self, from_app: str, models: Iterable[str]) -> None:
        self.from_app, self.models = from_app, tuple(models)

    def state_forwards(self, app_label: str, state: Any) -> None:
        pass

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        from_state.clear_delayed_apps_cache()
        using = schema_editor.connection.alias
        move_content_types(from_state.apps, self.from_app, app_label, self.models, using=using)

    def describe(self) -> str:
        return f"Move content types of {', '.join(self.models)} from {self.from_app}"


def move_content_types(apps: Any, from_app: str, to_app: str, models: Iterable[str], *, using: str) -> None:
    """Rename the content types of these models (lower-case names), so that their permissions, with the groups and users
    who have them, and their History stay. Where the new content type exists too, it gets all that refers to the old
    one: a process of the version before creates that again if it writes History during a rolling upgrade.

    `apps`: those of the migration's state, or Django's."""
    content_type = apps.get_model("contenttypes", "ContentType")
    content_types = content_type.objects.using(using)
    with transaction.atomic(using=using):
        for old in content_types.filter(app_label=from_app, model__in=models):
            new = content_types.filter(app_label=to_app, model=old.model).first()
            if new is None:
                content_types.filter(pk=old.pk).update(app_label=to_app)
                continue
            _merge_permissions(apps.get_model("auth", "Permission").objects.using(using), old, new)
            for relation in content_type._meta.related_objects:
                referring = relation.related_model._base_manager.using(using)
                referring.filter(**{relation.field.name: old}).update(**{relation.field.name: new})
            old.delete()
    content_type.objects.clear_cache()


def _merge_permissions(permissions: Any, old: Any, new: Any) -> None:
    """Replaces those of the old content type that the new one has too."""
    for permission in permissions.filter(content_type=old):
        if same := permissions.filter(content_type=new, codename=permission.codename).first():
            for group in permission.group_set.all():
                group.permissions.add(same)
            for user in permission.user_set.all():
                user.user_permissions.add(same)
            permission.delete()
