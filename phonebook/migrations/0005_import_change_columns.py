import django.db.models.deletion
from django.db import migrations, models

import phonebook.models


def expire_undo(apps, schema_editor):
    """What it needs is deleted with the old table."""
    batches = apps.get_model("phonebook", "ImportBatch").objects
    batches.filter(state="undoing").update(state="failed", error="Only some of its rows were undone.")
    batches.update(can_undo=False)


class Migration(migrations.Migration):
    safe_because = "no release has the table"

    dependencies = [
        ("phonebook", "0004_uploads"),
    ]

    operations = [
        migrations.DeleteModel("ImportChange"),
        migrations.CreateModel(
            name="ImportChange",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "batch_id", "row_id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("row_id", models.BigIntegerField(help_text="The primary key of the row.")),
                ("is_removed", models.BooleanField(default=False, help_text="The import removed the row.")),
                ("number", phonebook.models.NumberField()),
                ("name", models.CharField(max_length=200, null=True)),
                ("location", models.CharField(max_length=200, null=True)),
                ("updated_at", models.DateTimeField(null=True)),
                ("book", models.CharField(max_length=32, null=True)),
                ("source", models.CharField(max_length=32, null=True)),
                ("day", models.DateField(null=True)),
                ("total", models.IntegerField(null=True)),
                ("robocalls", models.IntegerField(null=True)),
                ("import_batch", models.IntegerField(null=True)),
                (
                    "batch",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="changes",
                        to="phonebook.importbatch",
                    ),
                ),
                (
                    "subject",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.DO_NOTHING,
                        related_name="+",
                        to="phonebook.complaintsubject",
                    ),
                ),
            ],
            options={
                "default_permissions": (),
            },
        ),
        migrations.RunPython(expire_undo, migrations.RunPython.noop),
    ]
