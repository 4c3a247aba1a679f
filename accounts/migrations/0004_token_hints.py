from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('accounts', '0003_test_tokens'),
    ]

    operations = [
        migrations.AddField(
            model_name='apitoken',
            name='last_four',
            field=models.CharField(db_default='', default='', editable=False, max_length=4),
        ),
    ]
