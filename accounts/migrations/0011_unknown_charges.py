import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('accounts', '0010_prices'),
    ]

    operations = [
        migrations.AddField(
            model_name='apitoken',
            name='charge_epoch',
            field=models.BigIntegerField(db_default=0, default=0, editable=False),
        ),
        migrations.CreateModel(
            name='UnknownCharge',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('charged_at', models.DateTimeField(help_text='The `created_at` of the ledger entry, if there is one.')),
                ('request_id', models.CharField(max_length=64)),
                ('outcome', models.CharField(choices=[('unknown', 'Unknown'), ('refunded', 'Refunded'), ('not charged', 'Not Charged')], default='unknown', max_length=11)),
                ('settled_at', models.DateTimeField(help_text='Empty while the outcome is unknown.', null=True)),
                ('token', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='accounts.apitoken')),
            ],
            options={
                'default_permissions': (),
                'indexes': [models.Index(condition=models.Q(('outcome', 'unknown')), fields=['id'], name='unknowncharge_unknown')],
                'constraints': [models.UniqueConstraint(fields=('token', 'charged_at', 'request_id'), name='unknowncharge_debit_once')],
            },
        ),
    ]
