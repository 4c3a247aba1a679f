from django.db import migrations


class Migration(migrations.Migration):
    """An add-on has the models now, with their tables."""

    dependencies = [
        ("phonebook", "0007_uploads_moved"),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.DeleteModel("AddressBookContact"),
                migrations.DeleteModel("AddressBookCard"),
                migrations.DeleteModel("AddressBook"),
            ],
        ),
    ]
