import django.core.validators
import django.db.models.deletion
import django.utils.timezone
from django.db import migrations, models

import lookup.models


class Migration(migrations.Migration):

    initial = True

    dependencies = []

    operations = [
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
                'indexes': [models.Index(fields=['day', 'source'], name='complaintday_day_source')],
                'constraints': [models.UniqueConstraint(fields=('number', 'source', 'day'), name='complaintday_number_source_day'), models.CheckConstraint(condition=models.Q(('robocalls__lte', models.F('total'))), name='complaintday_robocalls_at_most_total')],
            },
        ),
    ]
