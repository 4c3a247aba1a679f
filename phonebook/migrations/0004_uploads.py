import django.db.models.deletion
import django.utils.timezone
from django.db import migrations, models


class Migration(migrations.Migration):
    safe_because = "the choices of a field are not in the database, and the tables are new"

    dependencies = [
        ("phonebook", "0003_imports"),
    ]

    operations = [
        migrations.AlterField(
            model_name="importbatch",
            name="state",
            field=models.CharField(
                choices=[
                    ("uploading", "Being uploaded"),
                    ("checking", "Being checked"),
                    ("ready", "Ready to import"),
                    ("running", "Running"),
                    ("done", "Done"),
                    ("failed", "Failed"),
                    ("undoing", "Being undone"),
                    ("undone", "Undone"),
                ],
                max_length=16,
            ),
        ),
        migrations.CreateModel(
            name="ImportUpload",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                (
                    "owner",
                    models.CharField(
                        help_text="The user's name, until the import is confirmed: one each.",
                        max_length=150,
                        null=True,
                        unique=True,
                    ),
                ),
                ("size", models.PositiveIntegerField(help_text="In bytes.")),
                ("received", models.PositiveIntegerField(default=0, help_text="Bytes of the parts.")),
                ("step", models.CharField(blank=True, help_text="What the process does.", max_length=16)),
                (
                    "done",
                    models.PositiveIntegerField(help_text="Rows of the step; NULL: no process has begun.", null=True),
                ),
                (
                    "total",
                    models.PositiveIntegerField(
                        help_text="Rows of the step, an estimate while the file is read.", null=True
                    ),
                ),
                (
                    "seen_at",
                    models.DateTimeField(
                        default=django.utils.timezone.now, help_text="When its process was last known to run."
                    ),
                ),
                (
                    "preview",
                    models.JSONField(help_text="Some rows that the import would change: before and after.", null=True),
                ),
                (
                    "batch",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="upload",
                        to="phonebook.importbatch",
                    ),
                ),
            ],
            options={
                "default_permissions": (),
            },
        ),
        migrations.CreateModel(
            name="ImportPart",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("offset", models.PositiveIntegerField(help_text="Of its first byte in the file.")),
                ("content", models.BinaryField()),
                (
                    "upload",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="parts",
                        to="phonebook.importupload",
                    ),
                ),
            ],
            options={
                "default_permissions": (),
                "constraints": [
                    models.UniqueConstraint(fields=("upload", "offset"), name="importpart_upload_offset")
                ],
            },
        ),
    ]
