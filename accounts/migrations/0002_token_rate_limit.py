from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('accounts', '0001_initial'),
    ]

    operations = [
        migrations.AddField(
            model_name='apitoken',
            name='rate_limit',
            field=models.IntegerField(blank=True, null=True, validators=[MinValueValidator(1), MaxValueValidator(100000)]),
        ),
    ]
