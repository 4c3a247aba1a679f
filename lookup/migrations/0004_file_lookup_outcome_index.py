from django.db import migrations, models

from core.migration_operations import AddIndexConcurrently


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('lookup', '0003_file_lookup_sizes'),
    ]

    operations = [
        AddIndexConcurrently(
            model_name='filelookuprow',
            index=models.Index(fields=['lookup', 'outcome', 'number', 'line', 'size'], name='filelookuprow_outcome'),
        ),
    ]
