import django.db.models.deletion
from django.db import migrations, models

from core.operations import DropNotNull


class Migration(migrations.Migration):

    dependencies = [
        ('accounts', '0007_token_customer_index'),
    ]

    operations = [
        migrations.CreateModel(
            name='Incident',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(help_text='Such as source.failing: docs/alerts.md lists them.', max_length=32)),
                ('subject', models.CharField(blank=True, help_text='A source, the id of a token, a data set, ...', max_length=200)),
                ('title', models.CharField(max_length=250)),
                ('summary', models.CharField(blank=True, max_length=500)),
                ('hint', models.CharField(blank=True, help_text='What an operator can do.', max_length=500)),
                ('first_seen_at', models.DateTimeField()),
                ('last_seen_at', models.DateTimeField()),
                ('opened_at', models.DateTimeField(help_text='Empty: the condition has not lasted long enough yet.', null=True)),
                ('closed_at', models.DateTimeField(null=True)),
            ],
            options={
                'verbose_name': 'alert',
                'default_permissions': ('view',),
                'constraints': [models.UniqueConstraint(condition=models.Q(('closed_at__isnull', True)), fields=('kind', 'subject'), name='incident_one_open')],
            },
        ),
        migrations.AddField(
            model_name='notice',
            name='channel',
            field=models.CharField(choices=[('email', 'E-mail'), ('webhook', 'Webhook')], db_default='email', default='email', max_length=8),
        ),
        migrations.AddField(
            model_name='notice',
            name='event',
            field=models.CharField(choices=[('balance.low', 'Low balance'), ('incident.opened', 'Alert opened'), ('incident.resolved', 'Alert resolved'), ('alert.test', 'Test alert')], db_default='balance.low', default='balance.low', max_length=32),
        ),
        migrations.AddField(
            model_name='notice',
            name='has_webhooks',
            field=models.BooleanField(db_default=False, default=False, help_text='Whether the notices to webhooks about this balance were written.'),
        ),
        migrations.AddField(
            model_name='notice',
            name='payload',
            field=models.TextField(blank=True, db_default='', default='', help_text='JSON.'),
        ),
        migrations.AddField(
            model_name='notice',
            name='target',
            field=models.CharField(blank=True, db_default='', default='', help_text="An address, or a webhook's label.", max_length=254),
        ),
        DropNotNull(
            model_name='notice',
            name='balance',
            field=models.BigIntegerField(null=True),
        ),
        DropNotNull(
            model_name='notice',
            name='threshold',
            field=models.PositiveBigIntegerField(null=True),
        ),
        DropNotNull(
            model_name='notice',
            name='token',
            field=models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='notices', to='accounts.apitoken'),
        ),
        migrations.AddField(
            model_name='notice',
            name='incident',
            field=models.ForeignKey(db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='notices', to='accounts.incident'),
        ),
    ]
