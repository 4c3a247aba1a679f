from django.db import migrations


class Migration(migrations.Migration):
    """A new database, or one of 0.1.0, gets no tables that nothing uses."""

    replaces = [
        ('lookup', '0002_file_lookups'),
        ('lookup', '0003_file_lookup_sizes'),
        ('lookup', '0004_file_lookup_outcome_index'),
        ('lookup', '0005_file_lookup_wait'),
        ('lookup', '0006_file_lookups_moved'),
    ]

    dependencies = [
        ('lookup', '0001_initial'),
    ]

    operations = []
