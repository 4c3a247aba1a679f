import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('auth', '0012_alter_user_first_name_max_length'),
    ]

    operations = [
        migrations.CreateModel(
            name='Invitation',
            fields=[
                ('user', models.OneToOneField(on_delete=django.db.models.deletion.CASCADE, primary_key=True, related_name='invitation', serialize=False, to=settings.AUTH_USER_MODEL)),
                ('invited_by', models.CharField(max_length=150)),
                ('sent_at', models.DateTimeField(help_text='When the only valid link was made; empty if there is none, since it was withdrawn.', null=True)),
            ],
            options={
                'default_permissions': (),
            },
        ),
    ]
