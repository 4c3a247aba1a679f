import django.db.models.deletion
import django.utils.timezone
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('accounts', '0005_token_hint_index'),
    ]

    operations = [
        migrations.CreateModel(
            name='Customer',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(max_length=100)),
                ('note', models.TextField(blank=True)),
                ('links_version', models.PositiveIntegerField(default=1, editable=False)),
                ('created_at', models.DateTimeField(default=django.utils.timezone.now, editable=False)),
            ],
        ),
        migrations.CreateModel(
            name='CustomerContact',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('name', models.CharField(blank=True, max_length=100)),
                ('email', models.EmailField(max_length=254, verbose_name='e-mail address')),
                ('low_balance', models.BooleanField(default=True, help_text="Gets the notices of the customer's tokens that have no contact of their own.", verbose_name='low-balance notices')),
                ('customer', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='contacts', to='accounts.customer')),
            ],
            options={
                'default_permissions': (),
                'constraints': [models.UniqueConstraint(fields=('customer', 'email'), name='customercontact_email_once', violation_error_message='This customer has a contact with this address already.')],
            },
        ),
        migrations.AddField(
            model_name='apitoken',
            name='customer',
            field=models.ForeignKey(db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.PROTECT, related_name='tokens', to='accounts.customer'),
        ),
    ]
