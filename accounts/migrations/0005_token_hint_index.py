from django.db import migrations, models

from core.operations import AddIndexConcurrently


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('accounts', '0004_token_hints'),
    ]

    operations = [
        AddIndexConcurrently(
            model_name='apitoken',
            index=models.Index(fields=['last_four'], name='apitoken_last_four'),
        ),
    ]
