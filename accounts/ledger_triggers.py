"""The ledger is append-only in the database itself: triggers on both engines refuse UPDATE and DELETE."""

from django.db.backends.base.schema import BaseDatabaseSchemaEditor

_CREATE = {
    "sqlite": [
        f"""CREATE TRIGGER accounts_creditentry_no_{event} BEFORE {event} ON accounts_creditentry
        BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END"""
        for event in ("update", "delete")
    ],
    "postgresql": [
        """CREATE FUNCTION accounts_creditentry_append_only() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN RAISE EXCEPTION 'the ledger is append-only' USING ERRCODE = 'restrict_violation'; END $$""",
        """CREATE TRIGGER accounts_creditentry_append_only BEFORE UPDATE OR DELETE ON accounts_creditentry
        FOR EACH ROW EXECUTE FUNCTION accounts_creditentry_append_only()""",
    ],
}
_DROP = {
    "sqlite": [f"DROP TRIGGER accounts_creditentry_no_{event}" for event in ("update", "delete")],
    "postgresql": [
        "DROP TRIGGER accounts_creditentry_append_only ON accounts_creditentry",
        "DROP FUNCTION accounts_creditentry_append_only()",
    ],
}


def create(schema_editor: BaseDatabaseSchemaEditor) -> None:
    for statement in _CREATE[schema_editor.connection.vendor]:
        schema_editor.execute(statement)


def drop(schema_editor: BaseDatabaseSchemaEditor) -> None:
    for statement in _DROP[schema_editor.connection.vendor]:
        schema_editor.execute(statement)
