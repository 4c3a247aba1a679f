import django.utils.timezone
from django.db import migrations, models


class Migration(migrations.Migration):
    """A new database, or one of 0.1.0, gets no tables that nothing uses."""

    replaces = [
        ('phonebook', '0003_imports'),
        ('phonebook', '0004_uploads'),
        ('phonebook', '0005_import_change_columns'),
        ('phonebook', '0006_erase_permission'),
        ('phonebook', '0007_uploads_moved'),
    ]

    dependencies = [
        ('phonebook', '0002_number_rule_prefix'),
    ]

    operations = [
        migrations.CreateModel(
            name='ImportBatch',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(choices=[('contacts', 'Contacts'), ('complaints', 'Complaints')], max_length=16)),
                ('state', models.CharField(choices=[('running', 'Running'), ('done', 'Done'), ('failed', 'Failed'), ('undoing', 'Being undone'), ('undone', 'Undone')], max_length=16)),
                ('by', models.CharField(blank=True, help_text='Who ran the command.', max_length=150)),
                ('file_name', models.CharField(blank=True, help_text="Of several files, the first one's.", max_length=255)),
                ('options', models.JSONField(default=dict, help_text='Of the import, such as the region.')),
                ('counts', models.JSONField(default=dict, help_text='The ImportResult.')),
                ('faults', models.JSONField(default=list, help_text='The first rejected rows: line and reason.')),
                ('error', models.CharField(blank=True, max_length=500)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('finished_at', models.DateTimeField(null=True)),
                ('can_undo', models.BooleanField(default=False, help_text='Whether its changes are stored.')),
                ('last_id', models.BigIntegerField(help_text="The table's last id before it: added rows have greater ones.", null=True)),
                ('undone_at', models.DateTimeField(null=True)),
                ('undone_by', models.CharField(blank=True, max_length=150)),
                ('undo', models.JSONField(help_text='The UndoResult, also of an undo that was interrupted.', null=True)),
                ('data_sets', models.JSONField(default=dict, help_text='By name: the Dataset row before the import, and after it.')),
            ],
            options={
                'verbose_name': 'import',
                'verbose_name_plural': 'imports',
                'default_permissions': ('view',),
            },
        ),
        migrations.AddField(
            model_name='complaintday',
            name='import_batch',
            field=models.IntegerField(editable=False, null=True),
        ),
        migrations.AddField(
            model_name='contact',
            name='import_batch',
            field=models.IntegerField(editable=False, null=True),
        ),
        migrations.AlterModelOptions(
            name='contact',
            options={'permissions': [('erase_contact', "Can erase a number's data everywhere")]},
        ),
    ]
