from django.db import migrations, models


def empty_forgotten_records(apps, editor):
    """A record whose answer was emptied loses its number's hash too."""
    apps.get_model("accounts", "IdempotencyRecord").objects.filter(answer="").update(number_hash=None)


def delete_what_had_no_form_before(apps, editor):
    """Claims, and records without a number's hash: a retry with such a key is a new search."""
    apps.get_model("accounts", "IdempotencyRecord").objects.filter(answer="").delete()


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0003_console"),
    ]

    operations = [
        migrations.AddField(
            model_name="idempotencyrecord",
            name="claim_id",
            field=models.CharField(
                blank=True, help_text="Random: which request holds, or held, the claim.", max_length=32
            ),
        ),
        migrations.AddField(
            model_name="idempotencyrecord",
            name="claim_expires_at",
            field=models.DateTimeField(help_text="Empty when the search has finished.", null=True),
        ),
        migrations.AlterField(
            model_name="idempotencyrecord",
            name="number_hash",
            field=models.BinaryField(help_text="Empty when the number was forgotten.", max_length=32, null=True),
        ),
        migrations.AlterField(
            model_name="idempotencyrecord",
            name="answer",
            field=models.TextField(blank=True, help_text="The JSON body; empty while claimed and when forgotten."),
        ),
        migrations.RunPython(empty_forgotten_records, delete_what_had_no_form_before),
    ]
