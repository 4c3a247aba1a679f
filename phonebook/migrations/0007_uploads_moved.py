from django.db import migrations


class Migration(migrations.Migration):
    """Their tables belong to the add-on `uploads` now, which may be absent."""

    dependencies = [
        ("phonebook", "0006_erase_permission"),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.DeleteModel("ImportPart"),
                migrations.DeleteModel("ImportUpload"),
                migrations.DeleteModel("ImportChange"),
            ],
        ),
    ]
