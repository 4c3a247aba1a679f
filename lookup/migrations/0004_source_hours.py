from django.db import migrations, models
from django.db.models import Sum

SUMS = (
    "count",
    "total_us",
    *(f"ms_{bound}" for bound in (1, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, "more")),
)


def sum_up_what_was_counted(apps, editor):
    hours = apps.get_model("lookup", "Usage").objects.values("hour", "slot", "connector", "outcome")
    rows = hours.annotate(**{f"sum_{name}": Sum(name) for name in SUMS}).order_by("hour")
    hour = apps.get_model("lookup", "SourceHour")
    hour.objects.bulk_create(
        (hour(**{name.removeprefix("sum_"): value for name, value in row.items()}) for row in rows), batch_size=1000
    )


class Migration(migrations.Migration):
    dependencies = [
        ("lookup", "0003_real_data"),
    ]

    operations = [
        migrations.CreateModel(
            name="SourceHour",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
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
                ("hour", models.DateTimeField(help_text="When it begins (UTC).")),
            ],
            options={
                "default_permissions": (),
                "constraints": [
                    models.UniqueConstraint(
                        fields=("hour", "slot", "connector", "outcome"), name="sourcehour_hour_slot_connector_outcome"
                    )
                ],
            },
        ),
        migrations.RunPython(sum_up_what_was_counted, migrations.RunPython.noop, elidable=True),
    ]
