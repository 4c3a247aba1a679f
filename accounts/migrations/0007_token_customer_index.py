from django.db import migrations, models

from core.operations import AddIndexConcurrently


class Migration(migrations.Migration):

    atomic = False

    dependencies = [
        ('accounts', '0006_customers'),
    ]

    operations = [
        AddIndexConcurrently(
            model_name='apitoken',
            index=models.Index(fields=['customer'], name='apitoken_customer'),
        ),
    ]
