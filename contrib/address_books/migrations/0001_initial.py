import django.db.models.deletion
from django.db import migrations, models

import phonebook.models
from core.migration_operations import AdoptModel, MoveContentTypes


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('admin', '0003_logentry_add_action_flag_choices'),
        ('auth', '0012_alter_user_first_name_max_length'),
        ('contenttypes', '0002_remove_content_type_name'),
        ('phonebook', '0008_address_books_moved'),
    ]

    operations = [
        MoveContentTypes('phonebook', ['addressbook', 'addressbookcard', 'addressbookcontact']),
        AdoptModel(
            name='AddressBook',
            fields=[
                ('name', models.CharField(max_length=32, primary_key=True, serialize=False)),
                ('settings_digest', models.CharField(blank=True, help_text='Of its settings without the password.', max_length=32)),
                ('contacts', models.PositiveIntegerField(default=0, help_text='Different numbers of all cards.')),
                ('rejected', models.PositiveIntegerField(default=0, help_text='Numbers that could not be used.')),
                ('synced_at', models.DateTimeField(null=True)),
                ('failed_at', models.DateTimeField(null=True)),
                ('error', models.CharField(blank=True, max_length=200)),
            ],
            options={
                'db_table': 'phonebook_addressbook',
                'default_permissions': (),
            },
        ),
        AdoptModel(
            name='AddressBookCard',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('key', models.CharField(help_text='Hash of its path or id on the server, which may have a name.', max_length=32)),
                ('version', models.CharField(blank=True, help_text='Hash of its ETag or values.', max_length=32)),
                ('rejected', models.PositiveIntegerField(default=0)),
                ('book', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to='address_books.addressbook')),
            ],
            options={
                'db_table': 'phonebook_addressbookcard',
                'default_permissions': (),
                'constraints': [models.UniqueConstraint(fields=('book', 'key'), name='addressbookcard_book_key')],
            },
        ),
        AdoptModel(
            name='AddressBookContact',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('number', phonebook.models.NumberField()),
                ('name', models.CharField(blank=True, max_length=200)),
                ('location', models.CharField(blank=True, max_length=200)),
                ('card', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, to='address_books.addressbookcard')),
            ],
            options={
                'db_table': 'phonebook_addressbookcontact',
                'default_permissions': (),
                'constraints': [models.UniqueConstraint(fields=('number', 'card'), name='addressbookcontact_number_card')],
            },
        ),
    ]
