import django.db.models.deletion
from django.db import migrations, models

import lookup.models


class Migration(migrations.Migration):

    dependencies = [
        ('lookup', '0001_initial'),
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
        migrations.AddField(
            model_name='contact',
            name='book',
            field=models.CharField(editable=False, max_length=32, null=True, verbose_name='address book'),
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
        migrations.AddConstraint(
            model_name='addressbookcard',
            constraint=models.UniqueConstraint(fields=('book', 'key'), name='addressbookcard_book_key'),
        ),
        migrations.AddConstraint(
            model_name='addressbookcontact',
            constraint=models.UniqueConstraint(fields=('number', 'card'), name='addressbookcontact_number_card'),
        ),
    ]
