import django.db.models.deletion
import django.utils.timezone
from django.db import migrations, models

# The ledger is append-only in the database itself. One UPDATE is allowed, to erase a number: number_hash becomes NULL and
# every other column stays. SQLite has no TRUNCATE; its DELETE without a condition fires the row trigger. A migration that
# makes Django copy the table on SQLite drops these triggers with it: create them again after it, with its new columns.
APPEND_ONLY = {
    "sqlite": [
        """
        CREATE TRIGGER accounts_creditentry_no_update BEFORE UPDATE ON accounts_creditentry
        WHEN NOT (
            NEW.number_hash IS NULL AND OLD.number_hash IS NOT NULL AND NEW.id IS OLD.id
            AND NEW.token_id IS OLD.token_id AND NEW.amount IS OLD.amount AND NEW.balance_after IS OLD.balance_after
            AND NEW.kind IS OLD.kind AND NEW.actor IS OLD.actor AND NEW.reason IS OLD.reason
            AND NEW.reference IS OLD.reference AND NEW.request_id IS OLD.request_id
            AND NEW.created_at IS OLD.created_at AND NEW.refunds_id IS OLD.refunds_id AND NEW.price IS OLD.price
        )
        BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END
        """,
        """
        CREATE TRIGGER accounts_creditentry_no_delete BEFORE DELETE ON accounts_creditentry
        BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END
        """,
    ],
    "postgresql": [
        """
        CREATE FUNCTION accounts_creditentry_append_only() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN
            IF TG_OP = 'UPDATE' AND OLD.number_hash IS NOT NULL THEN
                OLD.number_hash := NULL;
                IF NEW IS NOT DISTINCT FROM OLD THEN
                    RETURN NEW;
                END IF;
            END IF;
            RAISE EXCEPTION 'the ledger is append-only' USING ERRCODE = 'restrict_violation';
        END $$
        """,
        """
        CREATE TRIGGER accounts_creditentry_append_only BEFORE UPDATE OR DELETE ON accounts_creditentry
        FOR EACH ROW EXECUTE FUNCTION accounts_creditentry_append_only()
        """,
        """
        CREATE FUNCTION accounts_creditentry_no_truncate() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN
            RAISE EXCEPTION 'the ledger is append-only' USING ERRCODE = 'restrict_violation';
        END $$
        """,
        """
        CREATE TRIGGER accounts_creditentry_no_truncate BEFORE TRUNCATE ON accounts_creditentry
        FOR EACH STATEMENT EXECUTE FUNCTION accounts_creditentry_no_truncate()
        """,
    ],
}
# SQLite drops its triggers with the table.
NOT_APPEND_ONLY = {
    "sqlite": [],
    "postgresql": [
        "DROP TRIGGER accounts_creditentry_no_truncate ON accounts_creditentry",
        "DROP FUNCTION accounts_creditentry_no_truncate()",
        "DROP TRIGGER accounts_creditentry_append_only ON accounts_creditentry",
        "DROP FUNCTION accounts_creditentry_append_only()",
    ],
}


def run(statements):
    def on_vendor(apps, schema_editor):
        for statement in statements[schema_editor.connection.vendor]:
            schema_editor.execute(statement)

    return on_vendor


class Migration(migrations.Migration):

    initial = True

    dependencies = [
    ]

    operations = [
        migrations.CreateModel(
            name='ApiToken',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=100)),
                ('note', models.TextField(blank=True)),
                ('is_test', models.BooleanField(db_default=False, default=False, editable=False, verbose_name='test token')),
                ('jti', models.CharField(editable=False, max_length=32, unique=True)),
                ('previous_jti', models.CharField(editable=False, max_length=32, null=True, unique=True)),
                ('previous_until', models.DateTimeField(editable=False, help_text='The previous token works until then.', null=True)),
                ('last_four', models.CharField(db_default='', default='', editable=False, max_length=4)),
                ('credits', models.BigIntegerField(default=0, editable=False)),
                ('charge_epoch', models.BigIntegerField(db_default=0, default=0, editable=False)),
                ('lifetime_days', models.PositiveIntegerField(editable=False, help_text='Lifetime of a token, also after rotation.')),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('expires_at', models.DateTimeField(editable=False)),
                ('revoked_at', models.DateTimeField(editable=False, null=True)),
                ('revoked_reason', models.CharField(blank=True, editable=False, max_length=200)),
                ('last_charged_at', models.DateTimeField(editable=False, null=True)),
                ('contact', models.EmailField(blank=True, help_text='Gets an e-mail when the balance is low.', max_length=254)),
                ('low_balance_at', models.PositiveBigIntegerField(blank=True, help_text='A notice is sent when the balance falls to this many credits.', null=True, verbose_name='low balance threshold')),
            ],
            options={
                'verbose_name': 'API token',
                'permissions': [('top_up_apitoken', 'Can top up a token, within SUPPORT_CREDITS_PER_DAY'), ('give_any_credits', 'Can give credits without that limit'), ('adjust_apitoken', 'Can adjust the balance of a token'), ('rotate_apitoken', 'Can rotate a token'), ('revoke_apitoken', 'Can revoke a token')],
            },
        ),
        migrations.CreateModel(
            name='Customer',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=100)),
                ('note', models.TextField(blank=True)),
                ('links_version', models.PositiveIntegerField(default=1, editable=False)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
            ],
        ),
        migrations.CreateModel(
            name='CreditEntry',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('amount', models.BigIntegerField()),
                ('balance_after', models.BigIntegerField()),
                ('kind', models.CharField(choices=[('issue', 'Issue'), ('top-up', 'Top-up'), ('search', 'Search'), ('adjustment', 'Adjustment'), ('refund', 'Refund')], max_length=10)),
                ('actor', models.CharField(blank=True, max_length=150, verbose_name='by')),
                ('reason', models.CharField(blank=True, max_length=200)),
                ('reference', models.CharField(blank=True, help_text="The operator's own reference, unique per token.", max_length=100)),
                ('price', models.DecimalField(decimal_places=4, editable=False, help_text='What the customer paid for these credits in total, in CURRENCY; empty if unknown.', max_digits=14, null=True)),
                ('request_id', models.CharField(blank=True, max_length=64)),
                ('number_hash', models.BinaryField(max_length=32, null=True)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('refunds', models.ForeignKey(db_index=False, help_text='The search that this entry refunds.', null=True, on_delete=django.db.models.deletion.PROTECT, related_name='refunded_by', to='accounts.creditentry')),
                ('token', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.PROTECT, related_name='entries', to='accounts.apitoken')),
            ],
            options={
                'verbose_name': 'ledger entry',
                'verbose_name_plural': 'ledger entries',
                'permissions': [('refund_creditentry', 'Can refund a search, within SUPPORT_CREDITS_PER_DAY'), ('export_creditentry', 'Can export the ledger')],
            },
        ),
        migrations.AddField(
            model_name='apitoken',
            name='customer',
            field=models.ForeignKey(db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='tokens', to='accounts.customer'),
        ),
        migrations.CreateModel(
            name='CustomerContact',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(blank=True, max_length=100)),
                ('email', models.EmailField(max_length=254, verbose_name='e-mail address')),
                ('low_balance', models.BooleanField(default=True, help_text="Gets the notices of the customer's tokens that have no contact of their own.", verbose_name='low-balance notices')),
                ('customer', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='contacts', to='accounts.customer')),
            ],
            options={
                'default_permissions': (),
            },
        ),
        migrations.CreateModel(
            name='IdempotencyRecord',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('key_hash', models.BinaryField(max_length=32)),
                ('number_hash', models.BinaryField(help_text='Empty when the number was erased.', max_length=32, null=True)),
                ('answer', models.TextField(blank=True, help_text='The JSON body; empty while claimed and when erased.')),
                ('claim_id', models.CharField(blank=True, help_text='Random id of the request that holds, or held, the claim.', max_length=32)),
                ('claim_expires_at', models.DateTimeField(help_text='Empty when the search has finished.', null=True)),
                ('created_at', models.DateTimeField(db_index=True)),
                ('entry', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='accounts.creditentry')),
                ('token', models.ForeignKey(on_delete=django.db.models.deletion.PROTECT, related_name='+', to='accounts.apitoken')),
            ],
        ),
        migrations.CreateModel(
            name='SearchHour',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('hour', models.DateTimeField(help_text='Start of the hour (UTC).')),
                ('outcome', models.CharField(max_length=16)),
                ('count', models.BigIntegerField(default=0)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('hour', 'outcome'), name='searchhour_hour_outcome_once')],
            },
        ),
        migrations.CreateModel(
            name='TokenDay',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('day', models.DateField()),
                ('outcome', models.CharField(max_length=16)),
                ('count', models.BigIntegerField(default=0)),
                ('token', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='days', to='accounts.apitoken')),
            ],
        ),
        migrations.CreateModel(
            name='UnknownCharge',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('charged_at', models.DateTimeField(help_text='The `created_at` of the ledger entry, if there is one.')),
                ('request_id', models.CharField(max_length=64)),
                ('outcome', models.CharField(choices=[('unknown', 'Unknown'), ('refunded', 'Refunded'), ('not charged', 'Not Charged')], default='unknown', max_length=11)),
                ('settled_at', models.DateTimeField(help_text='Empty while the outcome is unknown.', null=True)),
                ('token', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='accounts.apitoken')),
            ],
            options={
                'default_permissions': (),
            },
        ),
        migrations.AddIndex(
            model_name='creditentry',
            index=models.Index(fields=['token', 'created_at'], name='creditentry_token_created'),
        ),
        migrations.AddIndex(
            model_name='creditentry',
            index=models.Index(fields=['created_at'], name='creditentry_created'),
        ),
        migrations.AddIndex(
            model_name='creditentry',
            index=models.Index(fields=['request_id', 'created_at'], name='creditentry_request_created'),
        ),
        migrations.AddIndex(
            model_name='creditentry',
            index=models.Index(condition=models.Q(('reference', ''), _negated=True), fields=['reference', 'created_at'], name='creditentry_reference_created'),
        ),
        migrations.AddIndex(
            model_name='creditentry',
            index=models.Index(condition=models.Q(('kind', 'search'), _negated=True), fields=['created_at'], name='creditentry_booked_created'),
        ),
        migrations.AddIndex(
            model_name='creditentry',
            index=models.Index(condition=models.Q(('kind', 'search'), _negated=True), fields=['token', 'created_at'], name='creditentry_token_booked'),
        ),
        migrations.AddIndex(
            model_name='creditentry',
            index=models.Index(condition=models.Q(('kind', 'search'), _negated=True), fields=['price', 'amount', 'kind', 'created_at'], name='creditentry_booked_sums'),
        ),
        migrations.AddConstraint(
            model_name='creditentry',
            constraint=models.UniqueConstraint(condition=models.Q(('refunds__isnull', False)), fields=('refunds',), name='creditentry_refunded_once'),
        ),
        migrations.AddConstraint(
            model_name='creditentry',
            constraint=models.CheckConstraint(condition=models.Q(('balance_after__gte', 0)), name='creditentry_balance_not_negative'),
        ),
        migrations.AddConstraint(
            model_name='creditentry',
            constraint=models.UniqueConstraint(condition=models.Q(('reference', ''), _negated=True), fields=('token', 'reference'), name='creditentry_reference_once'),
        ),
        migrations.AddConstraint(
            model_name='creditentry',
            constraint=models.UniqueConstraint(condition=models.Q(('kind', 'issue'), models.Q(('reference', ''), _negated=True)), fields=('reference',), name='creditentry_issue_reference_once'),
        ),
        migrations.AddIndex(
            model_name='apitoken',
            index=models.Index(fields=['last_four'], name='apitoken_last_four'),
        ),
        migrations.AddIndex(
            model_name='apitoken',
            index=models.Index(fields=['customer'], name='apitoken_customer'),
        ),
        migrations.AddConstraint(
            model_name='apitoken',
            constraint=models.CheckConstraint(condition=models.Q(('credits__gte', 0)), name='apitoken_credits_not_negative'),
        ),
        migrations.AddConstraint(
            model_name='customercontact',
            constraint=models.UniqueConstraint(fields=('customer', 'email'), name='customercontact_email_once', violation_error_message='This customer has a contact with this address already.'),
        ),
        migrations.AddConstraint(
            model_name='idempotencyrecord',
            constraint=models.UniqueConstraint(fields=('token', 'key_hash'), name='idempotencyrecord_key_once'),
        ),
        migrations.AddIndex(
            model_name='tokenday',
            index=models.Index(fields=['day'], name='tokenday_day'),
        ),
        migrations.AddConstraint(
            model_name='tokenday',
            constraint=models.UniqueConstraint(fields=('token', 'day', 'outcome'), name='tokenday_token_day_outcome_once'),
        ),
        migrations.AddIndex(
            model_name='unknowncharge',
            index=models.Index(condition=models.Q(('outcome', 'unknown')), fields=['id'], name='unknowncharge_unknown'),
        ),
        migrations.AddConstraint(
            model_name='unknowncharge',
            constraint=models.UniqueConstraint(fields=('token', 'charged_at', 'request_id'), name='unknowncharge_debit_once'),
        ),
        migrations.RunPython(run(APPEND_ONLY), run(NOT_APPEND_ONLY)),
    ]
