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
