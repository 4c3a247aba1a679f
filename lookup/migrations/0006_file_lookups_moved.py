from django.db import migrations


class Migration(migrations.Migration):
    """An add-on has the models now, with their tables."""

    dependencies = [
        ('lookup', '0005_file_lookup_wait'),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.DeleteModel(name='FileLookupRow'),
                migrations.DeleteModel(name='FileLookup'),
            ],
        ),
    ]
