from django.db import migrations


class Migration(migrations.Migration):
    """The models are those of contrib.file_lookups, with their tables."""

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
