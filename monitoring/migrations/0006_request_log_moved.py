from django.db import migrations


class Migration(migrations.Migration):
    """The model is that of contrib.request_log, with its table."""

    dependencies = [
        ('monitoring', '0005_low_balance_start'),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.DeleteModel(name='RequestLogEntry'),
            ],
        ),
    ]
