import django.db.models.deletion
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models

from core.migration_operations import AdoptModel, MoveContentTypes


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('accounts', '0005_keys_of_claims_are_checked_at_once'),
        ('admin', '0003_logentry_add_action_flag_choices'),
        ('auth', '0012_alter_user_first_name_max_length'),
        ('contenttypes', '0002_remove_content_type_name'),
        ('lookup', '0006_file_lookups_moved'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        MoveContentTypes('lookup', ['filelookup', 'filelookuprow']),
        AdoptModel(
            name='FileLookup',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('state', models.CharField(choices=[('checking', 'Being checked'), ('ready', 'Ready to start'), ('running', 'Running'), ('stopped', 'Stopped'), ('done', 'Done')], default='checking', max_length=16)),
                ('error', models.CharField(blank=True, help_text='Why it stopped.', max_length=500)),
                ('file_name', models.CharField(max_length=255)),
                ('columns', models.JSONField(default=list)),
                ('delimiter', models.CharField(max_length=1)),
                ('size', models.BigIntegerField(db_default=0, help_text='Bytes of its rows.')),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('seen_at', models.DateTimeField(default=django.utils.timezone.now, help_text='When its process was last known to run.')),
                ('waits_until', models.DateTimeField(help_text="When the token's rate limit admits its next search.", null=True)),
                ('run', models.CharField(blank=True, help_text='Identifies its process.', max_length=32)),
                ('url', models.CharField(blank=True, help_text='The address of the service that started it.', max_length=200)),
                ('host', models.CharField(blank=True, help_text='The Host header for that address.', max_length=255)),
                ('started_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
                ('token', models.ForeignKey(help_text='Of the last start.', null=True, on_delete=django.db.models.deletion.PROTECT, related_name='+', to='accounts.apitoken')),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'verbose_name': 'file look-up',
                'verbose_name_plural': 'file look-ups',
                'db_table': 'lookup_filelookup',
                'default_permissions': ('add', 'view'),
            },
        ),
        AdoptModel(
            name='FileLookupRow',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('line', models.PositiveIntegerField()),
                ('cells', models.JSONField(default=list)),
                ('number', models.BigIntegerField(null=True)),
                ('problem', models.CharField(blank=True, max_length=200)),
                ('outcome', models.CharField(default='pending', help_text='One of number_file.OUTCOMES.', max_length=16)),
                ('result', models.JSONField(default=dict, help_text='The number_file.Result of an answer.')),
                ('size', models.IntegerField(db_default=1024, help_text='Bytes that it takes in the database, about.')),
                ('lookup', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='rows', to='file_lookups.filelookup')),
            ],
            options={
                'db_table': 'lookup_filelookuprow',
                'default_permissions': (),
                'indexes': [models.Index(fields=['number', 'lookup'], name='filelookuprow_number'), models.Index(fields=['lookup', 'outcome', 'number', 'line', 'size'], name='filelookuprow_outcome')],
                'constraints': [models.UniqueConstraint(fields=('lookup', 'line'), name='filelookuprow_line')],
            },
        ),
    ]
