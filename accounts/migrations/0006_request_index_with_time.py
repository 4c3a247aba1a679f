from django.db import migrations, models


class Migration(migrations.Migration):
    """Callers may give very many searches one request id: the newest of them are read from the index alone."""

    dependencies = [("accounts", "0005_ledger_truncate")]

    operations = [
        migrations.AddIndex(
            model_name="creditentry",
            index=models.Index(fields=["request_id", "created_at"], name="creditentry_request_created"),
        ),
        migrations.RemoveIndex(model_name="creditentry", name="creditentry_request"),
    ]
