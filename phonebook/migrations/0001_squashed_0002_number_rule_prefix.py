import django.core.validators
import django.db.models.deletion
import django.utils.timezone
from django.db import migrations, models

import phonebook.models


class Migration(migrations.Migration):
    """A new database gets no tables that nothing uses: those of address books are an add-on's. Their models are in the
    state, without their fields, until `0008_address_books_moved` removes them."""

    initial = True

    replaces = [
        ('phonebook', '0001_initial'),
        ('phonebook', '0002_number_rule_prefix'),
    ]

    dependencies = [
    ]

    operations = [
        migrations.CreateModel(
            name='CacheVersion',
            fields=[
                ('number_hash', models.BinaryField(max_length=32, primary_key=True, serialize=False)),
                ('version', models.BigIntegerField()),
                ('changed_at', models.DateTimeField(db_index=True)),
                ('suppressed', models.BooleanField(default=False, help_text='Imports skip this number.')),
            ],
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
                ('number', phonebook.models.NumberField(unique=True)),
                ('name', models.CharField(blank=True, max_length=200)),
                ('location', models.CharField(blank=True, max_length=200)),
                ('updated_at', models.DateTimeField(auto_now=True)),
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
                ('number', models.BigIntegerField(unique=True, validators=[django.core.validators.MinValueValidator(1), django.core.validators.MaxValueValidator(999_999_999_999_999)])),
                ('spam', models.BooleanField(blank=True, help_text='Choose Unknown to use the sources.', null=True)),
                ('name', models.CharField(blank=True, help_text='Leave empty to use the sources.', max_length=200)),
                ('note', models.CharField(blank=True, help_text='For operators; never in a response.', max_length=200)),
                ('updated_at', models.DateTimeField(auto_now=True)),
                ('is_prefix', models.BooleanField('prefix', db_default=False, default=False, help_text='Also for every longer number that begins with it.')),
            ],
            options={
                'verbose_name': 'rule',
            },
        ),
        migrations.CreateModel(
            name='ComplaintDay',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('number', phonebook.models.NumberField()),
                ('source', models.CharField(max_length=32)),
                ('day', models.DateField()),
                ('total', models.PositiveIntegerField(validators=[django.core.validators.MaxValueValidator(2147483647)])),
                ('robocalls', models.PositiveIntegerField(default=0, validators=[django.core.validators.MaxValueValidator(2147483647)])),
                ('subject', models.ForeignKey(blank=True, db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.DO_NOTHING, to='phonebook.complaintsubject')),
            ],
            options={
                'verbose_name': 'complaint count',
                'verbose_name_plural': 'complaints',
            },
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
            constraint=models.CheckConstraint(condition=models.Q(('robocalls__lte', models.F('total'))), name='complaintday_robocalls_at_most_total', violation_error_message='Enter at most as many robocalls as complaints in total.'),
        ),
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.CreateModel(name, fields=[('id', models.BigAutoField(primary_key=True))], options={'default_permissions': ()})
                for name in ('AddressBook', 'AddressBookCard', 'AddressBookContact')
            ],
        ),
    ]
