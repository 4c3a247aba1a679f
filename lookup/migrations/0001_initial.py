import django.utils.timezone
from django.db import migrations, models


class Migration(migrations.Migration):

    initial = True

    dependencies = [
    ]

    operations = [
        migrations.CreateModel(
            name='SourceCheck',
            fields=[
                ('connector', models.CharField(max_length=200, primary_key=True, serialize=False)),
                ('started_by', models.CharField(max_length=150)),
                ('started_at', models.DateTimeField()),
                ('finished_at', models.DateTimeField(help_text='Empty while the check runs, or if its process died.', null=True)),
                ('result', models.JSONField(default=dict)),
            ],
            options={
                'default_permissions': (),
            },
        ),
        migrations.CreateModel(
            name='SourcePause',
            fields=[
                ('connector', models.CharField(max_length=200, primary_key=True, serialize=False)),
                ('reason', models.CharField(max_length=200)),
                ('paused_by', models.CharField(max_length=150)),
                ('paused_at', models.DateTimeField(default=django.utils.timezone.now)),
            ],
            options={
                'verbose_name': 'source',
                'default_permissions': (),
            },
        ),
    ]
