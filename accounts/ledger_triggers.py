"""The ledger is append-only in the database itself: triggers on both engines refuse UPDATE and DELETE.

On PostgreSQL a trigger of migration 0005 refuses TRUNCATE, which fires none of these.

One UPDATE is let through, for a number that is to be forgotten: its hash becomes NULL and every other column stays.

A migration that gives the table a column puts it into _KEPT, and drops these triggers before and creates them after:
SQLite drops them with the table that Django copies.
"""

from collections.abc import Mapping, Sequence

from django.db.backends.base.schema import BaseDatabaseSchemaEditor

_KEPT = (
    "id",
    "token_id",
    "amount",
    "balance_after",
    "kind",
    "actor",
    "reason",
    "reference",
    "request_id",
    "created_at",
    "refunds_id",
)


def _forgets(kept: Sequence[str]) -> str:
    same = [f"NEW.{column} IS OLD.{column}" for column in kept]
    return " AND ".join(["NEW.number_hash IS NULL", "OLD.number_hash IS NOT NULL", *same])


def _sqlite(event: str, when: str = "") -> str:
    return f"""CREATE TRIGGER accounts_creditentry_no_{event} BEFORE {event} ON accounts_creditentry {when}
        BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END"""


def _postgresql(unless: str = "") -> list[str]:
    return [
        f"""CREATE FUNCTION accounts_creditentry_append_only() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN {unless}
            RAISE EXCEPTION 'the ledger is append-only' USING ERRCODE = 'restrict_violation';
        END $$""",
        """CREATE TRIGGER accounts_creditentry_append_only BEFORE UPDATE OR DELETE ON accounts_creditentry
        FOR EACH ROW EXECUTE FUNCTION accounts_creditentry_append_only()""",
    ]


def _create(kept: Sequence[str]) -> Mapping[str, Sequence[str]]:
    return {
        "sqlite": [_sqlite("update", f"WHEN NOT ({_forgets(kept)})"), _sqlite("delete")],
        "postgresql": _postgresql(
            """
            IF TG_OP = 'UPDATE' AND OLD.number_hash IS NOT NULL THEN
                OLD.number_hash := NULL;
                IF NEW IS NOT DISTINCT FROM OLD THEN
                    RETURN NEW;
                END IF;
            END IF;"""
        ),
    }


_CREATE_WITHOUT_FORGETTING = {"sqlite": [_sqlite("update"), _sqlite("delete")], "postgresql": _postgresql()}
_DROP = {
    "sqlite": [f"DROP TRIGGER accounts_creditentry_no_{event}" for event in ("update", "delete")],
    "postgresql": [
        "DROP TRIGGER accounts_creditentry_append_only ON accounts_creditentry",
        "DROP FUNCTION accounts_creditentry_append_only()",
    ],
}


def create(schema_editor: BaseDatabaseSchemaEditor) -> None:
    _execute(schema_editor, _create(_KEPT))


def create_without_refunds(schema_editor: BaseDatabaseSchemaEditor) -> None:
    """As they were before a line could name another."""
    _execute(schema_editor, _create([column for column in _KEPT if column != "refunds_id"]))


def create_without_forgetting(schema_editor: BaseDatabaseSchemaEditor) -> None:
    """As they were before numbers could be forgotten: every UPDATE is refused."""
    _execute(schema_editor, _CREATE_WITHOUT_FORGETTING)


def drop(schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Either kind: they have the same names."""
    _execute(schema_editor, _DROP)


def _execute(schema_editor: BaseDatabaseSchemaEditor, statements: Mapping[str, Sequence[str]]) -> None:
    for statement in statements[schema_editor.connection.vendor]:
        schema_editor.execute(statement)
