import django.db.models.deletion
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models

import phonebook.models
from core.migration_operations import AdoptModel, MoveContentTypes


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('phonebook', '0007_uploads_moved'),
        ('contenttypes', '0002_remove_content_type_name'),
        ('auth', '0012_alter_user_first_name_max_length'),
        ('admin', '0003_logentry_add_action_flag_choices'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        AdoptModel(
            name='ImportChange',
            fields=[
                ('pk', models.CompositePrimaryKey('batch_id', 'row_id', blank=True, editable=False, primary_key=True, serialize=False)),
                ('row_id', models.BigIntegerField(help_text='The primary key of the row.')),
                ('is_removed', models.BooleanField(default=False, help_text='The import removed the row.')),
                ('number', phonebook.models.NumberField()),
                ('name', models.CharField(max_length=200, null=True)),
                ('location', models.CharField(max_length=200, null=True)),
                ('updated_at', models.DateTimeField(null=True)),
                ('book', models.CharField(max_length=32, null=True)),
                ('source', models.CharField(max_length=32, null=True)),
                ('day', models.DateField(null=True)),
                ('total', models.IntegerField(null=True)),
                ('robocalls', models.IntegerField(null=True)),
                ('import_batch', models.IntegerField(null=True)),
                ('batch', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='changes', to='phonebook.importbatch')),
                ('subject', models.ForeignKey(db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='phonebook.complaintsubject')),
            ],
            options={
                'db_table': 'phonebook_importchange',
                'default_permissions': (),
            },
        ),
        AdoptModel(
            name='ImportUpload',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(choices=[('contacts', 'Contacts'), ('complaints', 'Complaints')], max_length=16)),
                ('state', models.CharField(choices=[('uploading', 'Being uploaded'), ('checking', 'Being checked'), ('ready', 'Ready to import'), ('failed', 'Failed'), ('importing', 'Being imported')], default='uploading', max_length=16)),
                ('file_name', models.CharField(max_length=255)),
                ('options', models.JSONField(default=dict, help_text='Of the import, such as the region.')),
                ('size', models.PositiveIntegerField(help_text='In bytes.')),
                ('received', models.PositiveIntegerField(default=0, help_text='Bytes of the parts.')),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('step', models.CharField(blank=True, help_text='What the process does.', max_length=16)),
                ('done', models.PositiveIntegerField(help_text='Rows of the step; NULL: no process has begun.', null=True)),
                ('total', models.PositiveIntegerField(help_text='Rows of the step, an estimate while the file is read.', null=True)),
                ('seen_at', models.DateTimeField(default=django.utils.timezone.now, help_text='When its process was last known to run.')),
                ('counts', models.JSONField(default=dict, help_text='The ImportResult of the check.')),
                ('faults', models.JSONField(default=list, help_text='The first rejected rows: line and reason.')),
                ('preview', models.JSONField(default=list, help_text='Some rows that the import would change: before and after.')),
                ('error', models.CharField(blank=True, help_text='Why the check failed.', max_length=500)),
                ('batch', models.OneToOneField(help_text='Once it is confirmed.', null=True, on_delete=django.db.models.deletion.CASCADE, related_name='upload', to='phonebook.importbatch')),
                ('user', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'db_table': 'phonebook_importupload',
                'default_permissions': (),
            },
        ),
        AdoptModel(
            name='ImportPart',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('offset', models.PositiveIntegerField(help_text='Of its first byte in the file.')),
                ('content', models.BinaryField()),
                ('upload', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='parts', to='uploads.importupload')),
            ],
            options={
                'db_table': 'phonebook_importpart',
                'default_permissions': (),
                'constraints': [models.UniqueConstraint(fields=('upload', 'offset'), name='importpart_upload_offset')],
            },
        ),
        MoveContentTypes('phonebook', ('importupload', 'importpart', 'importchange')),
    ]
