from django.db import migrations

from accounts import ledger_triggers


def forward(apps, editor):
    ledger_triggers.drop(editor)
    ledger_triggers.create_without_refunds(editor)


def backward(apps, editor):
    ledger_triggers.drop(editor)
    ledger_triggers.create_without_forgetting(editor)


class Migration(migrations.Migration):
    """The ledger lets a number's hash become NULL, and refuses every other change as before."""

    dependencies = [("accounts", "0001_initial")]

    operations = [migrations.RunPython(forward, backward)]
