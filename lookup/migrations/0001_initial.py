import django.core.validators
import django.db.models.deletion
import django.utils.timezone
from django.db import migrations, models

import lookup.models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('accounts', '0001_initial'),
    ]

    operations = [
        migrations.CreateModel(
            name='AddressBook',
            fields=[
                ('name', models.CharField(max_length=32, primary_key=True, serialize=False)),
                ('position', models.PositiveSmallIntegerField(help_text='The first book that has a number wins.')),
                ('settings_digest', models.CharField(blank=True, help_text='Of its settings without the password.', max_length=32)),
                ('sync_token', models.TextField(blank=True, help_text='RFC 6578; empty if the server has none.')),
                ('revision', models.IntegerField(default=0, help_text='Changes with each synchronization.')),
                ('contacts', models.PositiveIntegerField(default=0, help_text='Different numbers of all cards.')),
                ('rejected', models.PositiveIntegerField(default=0, help_text='Numbers that could not be used.')),
                ('synced_at', models.DateTimeField(null=True)),
                ('failed_at', models.DateTimeField(null=True)),
                ('error', models.CharField(blank=True, max_length=200)),
            ],
            options={
                'default_permissions': (),
            },
        ),
        migrations.CreateModel(
            name='CacheVersion',
            fields=[
                ('number_hash', models.BinaryField(max_length=32, primary_key=True, serialize=False)),
                ('changed_at', models.DateTimeField(db_column='at', db_index=True)),
                ('suppressed', models.BooleanField(db_column='blocked', default=False, help_text='Imports skip this number.')),
            ],
            options={
                'db_table': 'lookup_numbermark',
            },
        ),
        migrations.CreateModel(
            name='ComplaintSubject',
            fields=[
                ('id', models.SmallAutoField(primary_key=True, serialize=False)),
                ('text', models.CharField(max_length=100, unique=True)),
            ],
        ),
        migrations.CreateModel(
            name='Contact',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('number', lookup.models.NumberField(unique=True)),
                ('name', models.CharField(blank=True, max_length=200)),
                ('location', models.CharField(blank=True, max_length=200)),
                ('updated_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ('book', models.CharField(editable=False, max_length=32, null=True, verbose_name='address book')),
            ],
        ),
        migrations.CreateModel(
            name='Country',
            fields=[
                ('code', models.CharField(max_length=2, primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=100)),
            ],
            options={
                'verbose_name_plural': 'countries',
            },
        ),
        migrations.CreateModel(
            name='Dataset',
            fields=[
                ('name', models.CharField(max_length=64, primary_key=True, serialize=False)),
                ('version', models.CharField(max_length=64)),
                ('rows', models.PositiveIntegerField()),
                ('loaded_at', models.DateTimeField(default=django.utils.timezone.now)),
            ],
        ),
        migrations.CreateModel(
            name='NumberPrefix',
            fields=[
                ('prefix', models.BigIntegerField(primary_key=True, serialize=False)),
                ('place', models.CharField(blank=True, max_length=200)),
            ],
        ),
        migrations.CreateModel(
            name='NumberRule',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('number', lookup.models.NumberField(unique=True)),
                ('spam', models.BooleanField(blank=True, help_text='Choose Unknown to use the sources.', null=True)),
                ('name', models.CharField(blank=True, help_text='Leave empty to use the sources.', max_length=200)),
                ('note', models.CharField(blank=True, help_text='For operators; never in a response.', max_length=200)),
                ('updated_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
            ],
            options={
                'verbose_name': 'rule',
            },
        ),
        migrations.CreateModel(
            name='SourceCheck',
            fields=[
                ('connector', models.CharField(max_length=200, primary_key=True, serialize=False)),
                ('started_by', models.CharField(max_length=150)),
                ('started_at', models.DateTimeField()),
                ('finished_at', models.DateTimeField(help_text='Empty while the check runs, or if its process died.', null=True)),
                ('result', models.JSONField(default=dict)),
            ],
            options={
                'default_permissions': (),
            },
        ),
        migrations.CreateModel(
            name='SourcePause',
            fields=[
                ('connector', models.CharField(max_length=200, primary_key=True, serialize=False)),
                ('reason', models.CharField(max_length=200)),
                ('paused_by', models.CharField(max_length=150)),
                ('paused_at', models.DateTimeField(default=django.utils.timezone.now)),
            ],
            options={
                'verbose_name': 'source',
                'default_permissions': (),
            },
        ),
        migrations.CreateModel(
            name='AddressBookCard',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('key', models.CharField(help_text='Hash of its path or id on the server, which may have a name.', max_length=32)),
                ('version', models.CharField(blank=True, help_text='Hash of its ETag or change number.', max_length=32)),
                ('rejected', models.PositiveIntegerField(default=0)),
                ('book', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to='lookup.addressbook')),
            ],
            options={
                'default_permissions': (),
            },
        ),
        migrations.CreateModel(
            name='AddressBookContact',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('number', lookup.models.NumberField()),
                ('name', models.CharField(blank=True, max_length=200)),
                ('location', models.CharField(blank=True, max_length=200)),
                ('card', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to='lookup.addressbookcard')),
            ],
            options={
                'default_permissions': (),
            },
        ),
        migrations.CreateModel(
            name='ComplaintDay',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('number', lookup.models.NumberField()),
                ('source', models.CharField(max_length=32)),
                ('day', models.DateField()),
                ('total', models.PositiveIntegerField(validators=[django.core.validators.MaxValueValidator(2147483647)])),
                ('robocalls', models.PositiveIntegerField(default=0, validators=[django.core.validators.MaxValueValidator(2147483647)])),
                ('subject', models.ForeignKey(blank=True, db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.DO_NOTHING, to='lookup.complaintsubject')),
            ],
            options={
                'verbose_name': 'complaint count',
                'verbose_name_plural': 'complaints',
            },
        ),
        migrations.CreateModel(
            name='RequestLogEntry',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('created_at', models.DateTimeField(help_text='When it was answered.')),
                ('request_id', models.CharField(max_length=64)),
                ('status', models.SmallIntegerField(help_text='The HTTP status of the response.')),
                ('outcome', models.CharField(help_text='One of accounts.statistics.OUTCOMES.', max_length=16)),
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
            name='Usage',
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
            bases=('lookup.sourcehour',),
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
        migrations.AddConstraint(
            model_name='addressbookcard',
            constraint=models.UniqueConstraint(fields=('book', 'key'), name='addressbookcard_book_key'),
        ),
        migrations.AddConstraint(
            model_name='addressbookcontact',
            constraint=models.UniqueConstraint(fields=('number', 'card'), name='addressbookcontact_number_card'),
        ),
        migrations.AddIndex(
            model_name='complaintday',
            index=models.Index(fields=['day', 'source'], name='complaintday_day_source'),
        ),
        migrations.AddConstraint(
            model_name='complaintday',
            constraint=models.UniqueConstraint(fields=('number', 'source', 'day'), name='complaintday_number_source_day'),
        ),
        migrations.AddConstraint(
            model_name='complaintday',
            constraint=models.CheckConstraint(condition=models.Q(('robocalls__lte', models.F('total'))), name='complaintday_robocalls_at_most_total'),
        ),
        migrations.AddIndex(
            model_name='requestlogentry',
            index=models.Index(fields=['created_at'], name='requestlog_created'),
        ),
        migrations.AddIndex(
            model_name='requestlogentry',
            index=models.Index(fields=['token', 'created_at'], name='requestlog_token_created'),
        ),
        migrations.AddIndex(
            model_name='requestlogentry',
            index=models.Index(fields=['request_id', 'created_at'], name='requestlog_request_created'),
        ),
        migrations.AddIndex(
            model_name='requestlogentry',
            index=models.Index(fields=['number_hash', 'created_at'], name='requestlog_number_created'),
        ),
        migrations.AddIndex(
            model_name='requestlogentry',
            index=models.Index(fields=['outcome', 'created_at'], name='requestlog_outcome_created'),
        ),
        migrations.AddIndex(
            model_name='requestlogentry',
            index=models.Index(condition=models.Q(('status', 200), _negated=True), fields=['status', 'created_at'], name='requestlog_status_created'),
        ),
        migrations.AddIndex(
            model_name='requestlogentry',
            index=models.Index(condition=models.Q(('failures', ''), _negated=True), fields=['created_at'], name='requestlog_failed_created'),
        ),
    ]
