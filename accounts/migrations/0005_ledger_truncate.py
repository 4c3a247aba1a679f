from django.db import migrations

CREATE_POSTGRESQL = """
CREATE FUNCTION accounts_creditentry_no_truncate() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN
    RAISE EXCEPTION 'the ledger is append-only' USING ERRCODE = 'restrict_violation';
END $$;
CREATE TRIGGER accounts_creditentry_no_truncate BEFORE TRUNCATE ON accounts_creditentry
FOR EACH STATEMENT EXECUTE FUNCTION accounts_creditentry_no_truncate();
"""
DROP_POSTGRESQL = """
DROP TRIGGER accounts_creditentry_no_truncate ON accounts_creditentry;
DROP FUNCTION accounts_creditentry_no_truncate();
"""


def on_postgresql(statements):
    """SQLite has no TRUNCATE: its DELETE without a condition fires the row triggers."""

    def run(apps, editor):
        if editor.connection.vendor == "postgresql":
            editor.execute(statements)

    return run


class Migration(migrations.Migration):
    """PostgreSQL's TRUNCATE fires no row trigger, so a statement trigger refuses it, with CASCADE too."""

    dependencies = [("accounts", "0004_idempotency_claims")]

    operations = [migrations.RunPython(on_postgresql(CREATE_POSTGRESQL), on_postgresql(DROP_POSTGRESQL))]
