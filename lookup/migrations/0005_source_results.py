import hmac
from base64 import b32encode

from django.conf import settings
from django.db import migrations, models


def keyed(purpose, value):
    return hmac.digest(settings.NUMBER_HASH_KEY.encode(), f"{purpose}:{value}".encode(), "sha256")


def sealed(number):
    """The address of a number's page, as the console makes it from this release on."""
    data = number.encode()
    tag = keyed("console address", number)[:16]
    stream = keyed("console address key stream", f"{tag.hex()}:0")
    return b32encode(tag + bytes(a ^ b for a, b in zip(data, stream, strict=False))).decode().rstrip("=").lower()


def seal_numbers_in_the_history(apps, editor):
    """Links to contacts and rules are made of `object_id`, and held the number."""
    entries = apps.get_model("admin", "LogEntry").objects.filter(
        content_type__app_label="lookup",
        content_type__model__in=["contact", "numberrule"],
        object_id__regex="^[0-9]{1,32}$",
    )
    changed = []
    for entry in entries.only("pk", "object_id").iterator():
        entry.object_id = sealed(entry.object_id)
        changed.append(entry)
    entries.model.objects.bulk_update(changed, ["object_id"], batch_size=500)


class Migration(migrations.Migration):
    dependencies = [
        ("lookup", "0004_source_hours"),
        ("admin", "0003_logentry_add_action_flag_choices"),
        ("contenttypes", "0002_remove_content_type_name"),
    ]

    operations = [
        migrations.CreateModel(
            name="SourceResult",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("connector", models.CharField(max_length=200)),
                ("reason", models.CharField(blank=True, max_length=32)),
                ("hint", models.CharField(blank=True, help_text="What an operator can do.", max_length=200)),
                ("last_ms", models.BigIntegerField(default=0, help_text="Milliseconds since 1970 (UTC).")),
            ],
            options={
                "default_permissions": (),
                "constraints": [
                    models.UniqueConstraint(
                        fields=("connector", "reason", "hint"), name="sourceresult_connector_reason_hint_once"
                    )
                ],
            },
        ),
        migrations.RunPython(seal_numbers_in_the_history, migrations.RunPython.noop, elidable=True),
    ]
