from django.db import migrations

# At COMMIT, their check would wait for a lock of the token, its row or the ledger without `statement_timeout`.
CHANGE = """
DO $$ DECLARE name text; BEGIN
    FOR name IN SELECT conname FROM pg_constraint
        WHERE contype = 'f' AND conrelid = 'accounts_idempotencyrecord'::regclass LOOP
        EXECUTE format('ALTER TABLE accounts_idempotencyrecord ALTER CONSTRAINT %I DEFERRABLE INITIALLY {}', name);
    END LOOP;
END $$
"""


def check_at(moment):
    def on_postgresql(apps, schema_editor):
        if schema_editor.connection.vendor == "postgresql":
            schema_editor.execute(CHANGE.format(moment), params=None)

    return on_postgresql


class Migration(migrations.Migration):

    safe_because = "it changes when constraints are checked, without reading rows, and both times suit each version"

    dependencies = [
        ('accounts', '0004_customer_webhook'),
    ]

    operations = [
        migrations.RunPython(check_at("IMMEDIATE"), check_at("DEFERRED")),
    ]
