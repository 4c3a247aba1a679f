from django.db import migrations


class Migration(migrations.Migration):
    """An add-on has the model now, with its table."""

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
