import django.db.models.deletion
import django.utils.timezone
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('accounts', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel(
            name='TaskRun',
            fields=[
                ('name', models.CharField(max_length=32, primary_key=True, serialize=False)),
                ('succeeded_at', models.DateTimeField(null=True)),
                ('failed_at', models.DateTimeField(null=True)),
            ],
            options={
                'default_permissions': (),
            },
        ),
        migrations.CreateModel(
            name='Incident',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(help_text='Such as source.failing: docs/alerts.md lists them.', max_length=32)),
                ('subject', models.CharField(blank=True, help_text='A source, the id of a token, a data set, ...', max_length=200)),
                ('title', models.CharField(max_length=250)),
                ('summary', models.CharField(blank=True, max_length=500)),
                ('hint', models.CharField(blank=True, help_text='What an operator can do.', max_length=500)),
                ('first_seen_at', models.DateTimeField()),
                ('last_seen_at', models.DateTimeField()),
                ('opened_at', models.DateTimeField(help_text='Empty: the condition has not lasted long enough yet.', null=True)),
                ('closed_at', models.DateTimeField(null=True)),
            ],
            options={
                'verbose_name': 'alert',
                'default_permissions': ('view',),
                'constraints': [models.UniqueConstraint(condition=models.Q(('closed_at__isnull', True)), fields=('kind', 'subject'), name='incident_one_open')],
            },
        ),
        migrations.CreateModel(
            name='SourceHour',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('hour', models.DateTimeField(help_text='Start of the hour (UTC).')),
                ('slot', models.CharField(blank=True, help_text='Empty for an event of the source without a slot.', max_length=16)),
                ('connector', models.CharField(max_length=200)),
                ('outcome', models.CharField(max_length=32)),
                ('count', models.BigIntegerField(default=0)),
                ('total_us', models.BigIntegerField(default=0, verbose_name='total (µs)')),
                ('ms_1', models.IntegerField(default=0, verbose_name='up to 1 ms')),
                ('ms_5', models.IntegerField(default=0, verbose_name='up to 5 ms')),
                ('ms_10', models.IntegerField(default=0, verbose_name='up to 10 ms')),
                ('ms_25', models.IntegerField(default=0, verbose_name='up to 25 ms')),
                ('ms_50', models.IntegerField(default=0, verbose_name='up to 50 ms')),
                ('ms_100', models.IntegerField(default=0, verbose_name='up to 100 ms')),
                ('ms_250', models.IntegerField(default=0, verbose_name='up to 250 ms')),
                ('ms_500', models.IntegerField(default=0, verbose_name='up to 500 ms')),
                ('ms_1000', models.IntegerField(default=0, verbose_name='up to 1 s')),
                ('ms_2500', models.IntegerField(default=0, verbose_name='up to 2.5 s')),
                ('ms_more', models.IntegerField(default=0, verbose_name='more')),
            ],
            options={
                'default_permissions': (),
                'constraints': [models.UniqueConstraint(fields=('hour', 'slot', 'connector', 'outcome'), name='sourcehour_hour_slot_connector_outcome')],
            },
        ),
        migrations.CreateModel(
            name='Source',
            fields=[
            ],
            options={
                'verbose_name': 'sources',
                'verbose_name_plural': 'sources',
                'permissions': (('check_source', 'Can check a source by a real call'), ('pause_source', 'Can pause and resume sources'), ('test_lookup', 'Can test a number in all sources')),
                'proxy': True,
                'default_permissions': ('view',),
                'indexes': [],
                'constraints': [],
            },
            bases=('monitoring.sourcehour',),
        ),
        migrations.CreateModel(
            name='SourceResult',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('connector', models.CharField(max_length=200)),
                ('reason', models.CharField(blank=True, max_length=32)),
                ('hint', models.CharField(blank=True, help_text='What an operator can do.', max_length=200)),
                ('last_ms', models.BigIntegerField(default=0, help_text='Milliseconds since 1970 (UTC).')),
            ],
            options={
                'default_permissions': (),
                'constraints': [models.UniqueConstraint(fields=('connector', 'reason', 'hint'), name='sourceresult_connector_reason_hint_once')],
            },
        ),
        migrations.CreateModel(
            name='Notice',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('event', models.CharField(choices=[('balance.low', 'Low balance'), ('incident.opened', 'Alert opened'), ('incident.resolved', 'Alert resolved'), ('alert.test', 'Test alert')], db_default='balance.low', default='balance.low', max_length=32)),
                ('channel', models.CharField(choices=[('email', 'E-mail'), ('webhook', 'Webhook')], db_default='email', default='email', max_length=8)),
                ('target', models.CharField(blank=True, db_default='', default='', help_text="An address, or a webhook's label.", max_length=254)),
                ('payload', models.TextField(blank=True, db_default='', default='', help_text='JSON.')),
                ('has_webhooks', models.BooleanField(db_default=False, default=False, help_text='Whether the notices to webhooks about this balance were written.')),
                ('threshold', models.PositiveBigIntegerField(null=True)),
                ('balance', models.BigIntegerField(null=True)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('due_at', models.DateTimeField(help_text='Time of the next attempt; empty when none will follow.', null=True)),
                ('attempts', models.PositiveIntegerField(default=0)),
                ('sent_at', models.DateTimeField(null=True)),
                ('outcome', models.CharField(blank=True, help_text='Result of the last attempt.', max_length=100)),
                ('incident', models.ForeignKey(db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='notices', to='monitoring.incident')),
                ('token', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='notices', to='accounts.apitoken')),
            ],
            options={
                'db_table': 'accounts_notice',
                'indexes': [models.Index(condition=models.Q(('due_at__isnull', False)), fields=['due_at'], name='notice_due'), models.Index(condition=models.Q(('incident__isnull', False)), fields=['incident'], name='notice_incident')],
            },
        ),
        migrations.CreateModel(
            name='RequestLogEntry',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('created_at', models.DateTimeField(help_text='When it was answered.')),
                ('request_id', models.CharField(max_length=64)),
                ('status', models.SmallIntegerField(help_text='The HTTP status of the response.')),
                ('outcome', models.CharField(help_text='One of accounts.request_statistics.OUTCOMES.', max_length=16)),
                ('charged', models.BooleanField()),
                ('replayed', models.BooleanField()),
                ('number_mask', models.CharField(blank=True, help_text='Empty when there was none, and when erased.', max_length=15)),
                ('number_hash', models.BinaryField(max_length=32, null=True)),
                ('duration_us', models.IntegerField(help_text='From receipt, with time in the queue, to the answer.', verbose_name='duration (µs)')),
                ('source_a', models.CharField(blank=True, max_length=9)),
                ('source_a_us', models.IntegerField(null=True, verbose_name='source A (µs)')),
                ('source_b', models.CharField(blank=True, max_length=9)),
                ('source_b_us', models.IntegerField(null=True, verbose_name='source B (µs)')),
                ('failures', models.TextField(blank=True, help_text='`slot:connector:reason` of each failure, separated by spaces; no connector: `-`.')),
                ('calls', models.TextField(blank=True, help_text="JSON: by slot, each call's connector, outcome, duration and hint.")),
                ('entry', models.ForeignKey(db_constraint=False, db_index=False, help_text='The ledger entry of the charge.', null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='accounts.creditentry')),
                ('token', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='accounts.apitoken')),
            ],
            options={
                'verbose_name': 'request',
                'verbose_name_plural': 'request log',
                'default_permissions': ('view',),
                'indexes': [models.Index(fields=['created_at'], name='requestlog_created'), models.Index(fields=['token', 'created_at'], name='requestlog_token_created'), models.Index(fields=['request_id', 'created_at'], name='requestlog_request_created'), models.Index(fields=['number_hash', 'created_at'], name='requestlog_number_created'), models.Index(fields=['outcome', 'created_at'], name='requestlog_outcome_created'), models.Index(condition=models.Q(('status', 200), _negated=True), fields=['status', 'created_at'], name='requestlog_status_created'), models.Index(condition=models.Q(('failures', ''), _negated=True), fields=['created_at'], name='requestlog_failed_created')],
            },
        ),
    ]
