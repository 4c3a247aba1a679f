"""Migration operations that a service can run through: see CONTRIBUTING.md."""

from typing import Any

from django.contrib.postgres.operations import AddIndexConcurrently as PostgreSQLAddIndexConcurrently
from django.db import migrations


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


class DropNotNull(migrations.AlterField):
    """Makes a column nullable, and changes nothing else of it.

    Django's AlterField would also drop and recreate the foreign key, whose check of all rows locks both tables. On
    PostgreSQL the reverse operation leaves the column nullable, because rows may have no value.
    """

    def database_forwards(self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any) -> None:
        if schema_editor.connection.vendor != "postgresql":
            return super().database_forwards(app_label, schema_editor, from_state, to_state)
        model = to_state.apps.get_model(app_label, self.model_name)
        table, column = model._meta.db_table, model._meta.get_field(self.name).column
        quote = schema_editor.quote_name
        schema_editor.execute(f"ALTER TABLE {quote(table)} ALTER COLUMN {quote(column)} DROP NOT NULL", params=None)
        return None
