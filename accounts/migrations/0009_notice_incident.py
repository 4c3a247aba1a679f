from django.db import migrations, models

from core.operations import AddIndexConcurrently


class Migration(migrations.Migration):
    atomic = False

    dependencies = [
        ('accounts', '0008_incidents'),
    ]

    operations = [
        AddIndexConcurrently(
            model_name='notice',
            index=models.Index(condition=models.Q(('incident__isnull', False)), fields=['incident'], name='notice_incident'),
        ),
    ]
