from django.db import migrations


class Migration(migrations.Migration):
    """An add-on has the models now, with their tables."""

    dependencies = [
        ('monitoring', '0006_request_log_moved'),
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
