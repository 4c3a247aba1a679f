import django.db.models.deletion
import django.db.models.functions.datetime
import django.db.models.functions.text
import django.utils.timezone
from django.db import migrations, models

from core.migration_operations import AdoptModel, MoveContentTypes


class Migration(migrations.Migration):

    initial = True

    dependencies = [
        ('accounts', '0005_keys_of_claims_are_checked_at_once'),
        ('admin', '0003_logentry_add_action_flag_choices'),
        ('auth', '0012_alter_user_first_name_max_length'),
        ('contenttypes', '0002_remove_content_type_name'),
        ('monitoring', '0007_alerts_moved'),
    ]

    operations = [
        MoveContentTypes('monitoring', ['incident', 'alertmute', 'alertrecipient', 'notice']),
        AdoptModel(
            name='AlertMute',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('kind', models.CharField(max_length=32)),
                ('subject', models.CharField(blank=True, help_text='Empty: all alerts of the kind.', max_length=200)),
                ('until', models.DateTimeField()),
                ('created_by', models.CharField(help_text='A user name.', max_length=150)),
                ('created_at', models.DateTimeField()),
                ('reason', models.CharField(blank=True, max_length=200)),
            ],
            options={
                'db_table': 'monitoring_alertmute',
                'default_permissions': (),
                'constraints': [models.UniqueConstraint(fields=('kind', 'subject'), name='alertmute_kind_subject')],
            },
        ),
        AdoptModel(
            name='AlertRecipient',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('email', models.EmailField(max_length=254, verbose_name='e-mail address')),
                ('severities', models.CharField(choices=[('all', 'all alerts'), ('critical', 'critical alerts only')], default='all', max_length=8, verbose_name='receives')),
                ('is_active', models.BooleanField(default=True, help_text='Turn off to send nothing for a while.', verbose_name='active')),
                ('note', models.CharField(blank=True, help_text='Such as whose address it is.', max_length=200)),
            ],
            options={
                'verbose_name': 'alert recipient',
                'db_table': 'monitoring_alertrecipient',
                'constraints': [models.UniqueConstraint(django.db.models.functions.text.Lower('email'), name='alertrecipient_email', violation_error_message='This address is an alert recipient already.')],
            },
        ),
        AdoptModel(
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
                ('notified_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), help_text='When it was reported as open, or last reminded of; empty: not yet, because it was muted.', null=True)),
                ('acknowledged_at', models.DateTimeField(null=True)),
                ('acknowledged_by', models.CharField(db_default='', default='', help_text='A user name.', max_length=150)),
                ('acknowledgement', models.CharField(db_default='', default='', help_text="The user's reason.", max_length=200)),
            ],
            options={
                'verbose_name': 'alert',
                'db_table': 'monitoring_incident',
                'permissions': (('handle_incident', 'Can acknowledge and mute alerts'),),
                'default_permissions': ('view',),
                'constraints': [models.UniqueConstraint(condition=models.Q(('closed_at__isnull', True)), fields=('kind', 'subject'), name='incident_one_open')],
            },
        ),
        AdoptModel(
            name='Notice',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('event', models.CharField(choices=[('balance.low', 'Low balance'), ('incident.opened', 'Alert opened'), ('incident.reminder', 'Alert still open'), ('incident.resolved', 'Alert resolved'), ('alert.test', 'Test alert')], db_default='balance.low', default='balance.low', max_length=32)),
                ('channel', models.CharField(choices=[('email', 'E-mail'), ('webhook', 'Webhook')], db_default='email', default='email', max_length=8)),
                ('target', models.CharField(blank=True, db_default='', default='', help_text="An address, or a webhook's label.", max_length=254)),
                ('payload', models.TextField(blank=True, db_default='', default='', help_text='JSON.')),
                ('has_webhooks', models.BooleanField(db_default=False, default=False, help_text='Whether the notices to webhooks about this balance were written.')),
                ('threshold', models.PositiveBigIntegerField(null=True)),
                ('balance', models.BigIntegerField(null=True)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now)),
                ('due_at', models.DateTimeField(help_text='Time of the next attempt; empty when none will follow.', null=True)),
                ('attempts', models.PositiveIntegerField(default=0)),
                ('sent_at', models.DateTimeField(null=True)),
                ('outcome', models.CharField(blank=True, help_text='Result of the last attempt.', max_length=100)),
                ('incident', models.ForeignKey(db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='notices', to='alerts.incident')),
                ('token', models.ForeignKey(null=True, on_delete=django.db.models.deletion.PROTECT, related_name='notices', to='accounts.apitoken')),
            ],
            options={
                'db_table': 'accounts_notice',
                'indexes': [models.Index(condition=models.Q(('due_at__isnull', False)), fields=['due_at'], name='notice_due'), models.Index(condition=models.Q(('incident__isnull', False)), fields=['incident'], name='notice_incident')],
            },
        ),
    ]
