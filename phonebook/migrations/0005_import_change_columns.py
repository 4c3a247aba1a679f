import django.db.models.deletion
from django.db import migrations, models

ADDED = {
    "name": models.CharField(max_length=200, null=True),
    "location": models.CharField(max_length=200, null=True),
    "updated_at": models.DateTimeField(null=True),
    "book": models.CharField(max_length=32, null=True),
    "source": models.CharField(max_length=32, null=True),
    "day": models.DateField(null=True),
    "total": models.IntegerField(null=True),
    "robocalls": models.IntegerField(null=True),
    "subject": models.ForeignKey(
        db_constraint=False,
        db_index=False,
        null=True,
        on_delete=django.db.models.deletion.DO_NOTHING,
        related_name="+",
        to="phonebook.complaintsubject",
    ),
    "import_batch": models.IntegerField(null=True),
}


def copy_values(apps, schema_editor):
    """From the JSON object that had all columns."""
    fields = [apps.get_model("phonebook", "ImportChange")._meta.get_field(name) for name in ADDED]
    values = {field.column: f"previous ->> '{field.column}'" for field in fields}
    if schema_editor.connection.vendor == "postgresql":  # SQLite's operator returns numbers as such
        values = {
            field.column: f"CAST({values[field.column]} AS {field.db_type(schema_editor.connection)})" for field in fields
        }
    assignments = ", ".join(f"{column} = {value}" for column, value in values.items())
    schema_editor.execute(f"UPDATE phonebook_importchange SET {assignments}")  # noqa: S608


class Migration(migrations.Migration):
    safe_because = "no release has the table"

    dependencies = [
        ("phonebook", "0004_uploads"),
    ]

    operations = [
        *(migrations.AddField("importchange", name, field) for name, field in ADDED.items()),
        migrations.RunPython(copy_values, migrations.RunPython.noop),
        migrations.RemoveField("importchange", "previous"),
    ]
