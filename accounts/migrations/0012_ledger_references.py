from django.db import migrations, models

from core.operations import AddIndexConcurrently


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('accounts', '0011_unknown_charges'),
    ]

    operations = [
        AddIndexConcurrently(
            model_name='creditentry',
            index=models.Index(condition=models.Q(('reference', ''), _negated=True), fields=['reference', 'created_at'], name='creditentry_reference_created'),
        ),
    ]
