import django.db.models.deletion
from django.db import migrations, models

from core.migration_operations import AdoptModel, MoveContentTypes


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('accounts', '0001_initial'),
        ('admin', '0003_logentry_add_action_flag_choices'),
        ('auth', '0012_alter_user_first_name_max_length'),
        ('contenttypes', '0002_remove_content_type_name'),
        ('monitoring', '0006_request_log_moved'),
    ]

    operations = [
        MoveContentTypes('monitoring', ['requestlogentry']),
        AdoptModel(
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
                ('idempotency_key', models.BooleanField(help_text='Whether there was an Idempotency-Key; NULL in rows from before this was recorded.', null=True)),
                ('entry', models.ForeignKey(db_constraint=False, db_index=False, help_text='The ledger entry of the charge.', null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='accounts.creditentry')),
                ('token', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='accounts.apitoken')),
            ],
            options={
                'db_table': 'monitoring_requestlogentry',
                'verbose_name': 'request',
                'verbose_name_plural': 'request log',
                'default_permissions': ('view',),
                'indexes': [models.Index(fields=['created_at'], name='requestlog_created'), models.Index(fields=['token', 'created_at'], name='requestlog_token_created'), models.Index(fields=['request_id', 'created_at'], name='requestlog_request_created'), models.Index(fields=['number_hash', 'created_at'], name='requestlog_number_created'), models.Index(fields=['outcome', 'created_at'], name='requestlog_outcome_created'), models.Index(condition=models.Q(('status', 200), _negated=True), fields=['status', 'created_at'], name='requestlog_status_created'), models.Index(condition=models.Q(('failures', ''), _negated=True), fields=['created_at'], name='requestlog_failed_created')],
            },
        ),
    ]
