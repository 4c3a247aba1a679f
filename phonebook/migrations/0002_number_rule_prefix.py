from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("phonebook", "0001_initial")]
    safe_because = "the new column has a database default, and of the number only the validation in Python changes"

    operations = [
        migrations.AddField(
            "numberrule",
            "is_prefix",
            models.BooleanField(
                "prefix", default=False, db_default=False, help_text="Also for every longer number that begins with it."
            ),
        ),
        migrations.AlterField(
            "numberrule",
            "number",
            models.BigIntegerField(
                unique=True, validators=[MinValueValidator(1), MaxValueValidator(999_999_999_999_999)]
            ),
        ),
    ]
