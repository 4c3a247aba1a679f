import django.db.models.deletion
from django.db import migrations, models

# SQLite's trigger names each column (0001_initial); PostgreSQL's compares whole rows.
NO_UPDATE = """
CREATE TRIGGER accounts_creditentry_no_update BEFORE UPDATE ON accounts_creditentry
WHEN NOT (
    NEW.number_hash IS NULL AND OLD.number_hash IS NOT NULL AND NEW.id IS OLD.id
    AND NEW.token_id IS OLD.token_id AND NEW.amount IS OLD.amount AND NEW.balance_after IS OLD.balance_after
    AND NEW.kind IS OLD.kind AND NEW.actor IS OLD.actor AND NEW.reason IS OLD.reason
    AND NEW.reference IS OLD.reference AND NEW.request_id IS OLD.request_id
    AND NEW.created_at IS OLD.created_at AND NEW.refunds_id IS OLD.refunds_id AND NEW.price IS OLD.price
    {other_token}
)
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END
"""


def create_trigger(other_token):
    def on_sqlite(apps, schema_editor):
        if schema_editor.connection.vendor == "sqlite":
            schema_editor.execute("DROP TRIGGER accounts_creditentry_no_update")
            schema_editor.execute(NO_UPDATE.format(other_token=other_token))

    return on_sqlite


class Migration(migrations.Migration):

    safe_because = "the choices of a field are not in the database, and the trigger is replaced on SQLite only"

    dependencies = [
        ('accounts', '0002_token_rate_limit'),
    ]

    operations = [
        migrations.AlterModelOptions(
            name='apitoken',
            options={'permissions': [('top_up_apitoken', 'Can top up a token, within SUPPORT_CREDITS_PER_DAY'), ('give_any_credits', 'Can give credits without that limit'), ('adjust_apitoken', 'Can adjust the balance of a token'), ('rotate_apitoken', 'Can rotate a token'), ('revoke_apitoken', 'Can revoke a token'), ('transfer_apitoken', 'Can move credits between the tokens of a customer')], 'verbose_name': 'API token'},
        ),
        migrations.AlterField(
            model_name='creditentry',
            name='kind',
            field=models.CharField(choices=[('issue', 'Issue'), ('top-up', 'Top-up'), ('search', 'Search'), ('adjustment', 'Adjustment'), ('refund', 'Refund'), ('transfer', 'Transfer')], max_length=10),
        ),
        migrations.AddField(
            model_name='creditentry',
            name='other_token',
            field=models.ForeignKey(db_constraint=False, db_index=False, help_text='Of a transfer, where the credits went or came from. Its entry has the same reference.', null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='accounts.apitoken'),
        ),
        migrations.RunPython(create_trigger("AND NEW.other_token_id IS OLD.other_token_id"), create_trigger("")),
    ]
