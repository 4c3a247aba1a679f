import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('accounts', '0003_transfers'),
    ]

    operations = [
        migrations.CreateModel(
            name='CustomerWebhook',
            fields=[
                ('customer', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='webhook', serialize=False, to='accounts.customer')),
                ('url', models.CharField(max_length=500)),
                ('secret', models.CharField(max_length=100)),
            ],
            options={
                'default_permissions': (),
            },
        ),
    ]
