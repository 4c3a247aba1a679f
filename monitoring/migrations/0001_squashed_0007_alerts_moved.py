import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    """A new database gets no tables that nothing uses."""

    initial = True

    replaces = [
        ('monitoring', '0001_initial'),
        ('monitoring', '0002_requestlogentry_idempotency_key'),
        ('monitoring', '0003_token_source_days'),
        ('monitoring', '0004_alert_handling'),
        ('monitoring', '0005_low_balance_start'),
        ('monitoring', '0006_request_log_moved'),
        ('monitoring', '0007_alerts_moved'),
    ]

    dependencies = [
        ('accounts', '0003_transfers'),
    ]

    operations = [
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
            name='TokenSourceDay',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('day', models.DateField()),
                ('slot', models.CharField(max_length=16)),
                ('connector', models.CharField(max_length=200)),
                ('calls', models.BigIntegerField(default=0)),
                ('token', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='accounts.apitoken')),
            ],
            options={
                'default_permissions': (),
                'constraints': [models.UniqueConstraint(fields=('day', 'token', 'slot', 'connector'), name='tokensourceday_day_token_slot_connector')],
            },
        ),
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
    ]
