from django.db import migrations, models

# SQLite's trigger names the columns that erasing a number must not change; PostgreSQL's compares whole rows.
_DROP = "DROP TRIGGER accounts_creditentry_no_update"
_CREATE = """
CREATE TRIGGER accounts_creditentry_no_update BEFORE UPDATE ON accounts_creditentry
WHEN NOT (
    NEW.number_hash IS NULL AND OLD.number_hash IS NOT NULL AND NEW.id IS OLD.id
    AND NEW.token_id IS OLD.token_id AND NEW.amount IS OLD.amount AND NEW.balance_after IS OLD.balance_after
    AND NEW.kind IS OLD.kind AND NEW.actor IS OLD.actor AND NEW.reason IS OLD.reason
    AND NEW.reference IS OLD.reference AND NEW.request_id IS OLD.request_id
    AND NEW.created_at IS OLD.created_at AND NEW.refunds_id IS OLD.refunds_id {further}
)
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END
"""


def _replace_trigger(further):
    def on_sqlite(apps, schema_editor):
        if schema_editor.connection.vendor == "sqlite":
            schema_editor.execute(_DROP)
            schema_editor.execute(_CREATE.format(further=further))

    return on_sqlite


class Migration(migrations.Migration):

    dependencies = [
        ('accounts', '0009_notice_incident'),
    ]
    safe_because = "the columns are null or have a default, and PostgreSQL's triggers stay as they are"

    operations = [
        migrations.AddField(
            model_name='creditday',
            name='price',
            field=models.DecimalField(db_default=0, decimal_places=4, default=0, max_digits=20),
        ),
        migrations.AddField(
            model_name='creditday',
            name='priced_amount',
            field=models.BigIntegerField(db_default=0, default=0),
        ),
        migrations.AddField(
            model_name='creditentry',
            name='price',
            field=models.DecimalField(decimal_places=4, editable=False, help_text='What the customer paid for these credits in total, in CURRENCY; empty if unknown.', max_digits=14, null=True),
        ),
        migrations.RunPython(
            _replace_trigger("AND NEW.price IS OLD.price"), _replace_trigger("")
        ),
    ]
