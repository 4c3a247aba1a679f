import django.core.validators
import django.utils.timezone
from django.db import migrations, models

import lookup.models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Contact",
            fields=[
                ("number", lookup.models.NumberField(primary_key=True, serialize=False)),
                ("name", models.CharField(blank=True, max_length=200)),
                ("location", models.CharField(blank=True, max_length=200)),
                ("updated_at", models.DateTimeField(default=django.utils.timezone.now, editable=False)),
            ],
        ),
        migrations.CreateModel(
            name="Country",
            fields=[
                ("code", models.CharField(max_length=2, primary_key=True, serialize=False)),
                ("name", models.CharField(max_length=100)),
            ],
            options={
                "verbose_name_plural": "countries",
            },
        ),
        migrations.CreateModel(
            name="Dataset",
            fields=[
                ("name", models.CharField(max_length=32, primary_key=True, serialize=False)),
                ("version", models.CharField(max_length=64)),
                ("rows", models.PositiveIntegerField()),
                ("loaded_at", models.DateTimeField(default=django.utils.timezone.now)),
            ],
        ),
        migrations.CreateModel(
            name="NumberPrefix",
            fields=[
                ("prefix", models.BigIntegerField(primary_key=True, serialize=False)),
                ("place", models.CharField(blank=True, max_length=200)),
            ],
        ),
        migrations.CreateModel(
            name="NumberRule",
            fields=[
                ("number", lookup.models.NumberField(primary_key=True, serialize=False)),
                (
                    "spam",
                    models.BooleanField(
                        blank=True, help_text="Yes or no; unknown leaves it to the sources.", null=True
                    ),
                ),
                ("name", models.CharField(blank=True, help_text="Empty leaves it to the sources.", max_length=200)),
                ("note", models.CharField(blank=True, help_text="For operators; never in an answer.", max_length=200)),
                ("updated_at", models.DateTimeField(default=django.utils.timezone.now, editable=False)),
            ],
            options={
                "verbose_name": "rule",
            },
        ),
        migrations.CreateModel(
            name="ComplaintDay",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("number", lookup.models.NumberField()),
                ("source", models.CharField(max_length=32)),
                ("day", models.DateField()),
                (
                    "total",
                    models.PositiveIntegerField(validators=[django.core.validators.MaxValueValidator(2147483647)]),
                ),
                (
                    "robocalls",
                    models.PositiveIntegerField(
                        default=0, validators=[django.core.validators.MaxValueValidator(2147483647)]
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(fields=("number", "source", "day"), name="complaintday_number_source_day"),
                    models.CheckConstraint(
                        condition=models.Q(("robocalls__lte", models.F("total"))),
                        name="complaintday_robocalls_at_most_total",
                    ),
                ],
            },
        ),
    ]
