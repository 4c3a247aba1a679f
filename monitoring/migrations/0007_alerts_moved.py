from django.db import migrations


class Migration(migrations.Migration):
    """The models are those of contrib.alerts, with their tables."""

    dependencies = [
        ('monitoring', '0005_low_balance_start'),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            state_operations=[
                migrations.DeleteModel(name='Notice'),
                migrations.DeleteModel(name='Incident'),
                migrations.DeleteModel(name='AlertMute'),
                migrations.DeleteModel(name='AlertRecipient'),
            ],
        ),
    ]
