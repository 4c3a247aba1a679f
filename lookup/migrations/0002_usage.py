from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("lookup", "0001_initial"),
    ]

    operations = [
        migrations.CreateModel(
            name="Usage",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("hour", models.DateTimeField(help_text="When it begins (UTC).")),
                ("token_id", models.BigIntegerField(help_text="0: no token asked.")),
                (
                    "slot",
                    models.CharField(
                        blank=True, help_text="Empty: an event of the source's, in no slot.", max_length=16
                    ),
                ),
                ("connector", models.CharField(max_length=200)),
                ("outcome", models.CharField(max_length=32)),
                ("count", models.BigIntegerField(default=0)),
                ("total_us", models.BigIntegerField(default=0, verbose_name="total (µs)")),
                ("ms_1", models.IntegerField(default=0, verbose_name="up to 1 ms")),
                ("ms_5", models.IntegerField(default=0, verbose_name="up to 5 ms")),
                ("ms_10", models.IntegerField(default=0, verbose_name="up to 10 ms")),
                ("ms_25", models.IntegerField(default=0, verbose_name="up to 25 ms")),
                ("ms_50", models.IntegerField(default=0, verbose_name="up to 50 ms")),
                ("ms_100", models.IntegerField(default=0, verbose_name="up to 100 ms")),
                ("ms_250", models.IntegerField(default=0, verbose_name="up to 250 ms")),
                ("ms_500", models.IntegerField(default=0, verbose_name="up to 500 ms")),
                ("ms_1000", models.IntegerField(default=0, verbose_name="up to 1 s")),
                ("ms_2500", models.IntegerField(default=0, verbose_name="up to 2.5 s")),
                ("ms_more", models.IntegerField(default=0, verbose_name="more")),
            ],
            options={
                "verbose_name": "usage",
                "verbose_name_plural": "usage",
                "constraints": [
                    models.UniqueConstraint(
                        fields=("hour", "token_id", "slot", "connector", "outcome"),
                        name="usage_hour_token_slot_connector_outcome",
                    )
                ],
            },
        ),
    ]
