import django.db.models.deletion
import django.utils.timezone
from django.db import migrations, models

from accounts import ledger_triggers


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="ApiToken",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", models.CharField(max_length=100)),
                ("note", models.TextField(blank=True)),
                ("jti", models.CharField(editable=False, max_length=32, unique=True)),
                ("previous_jti", models.CharField(editable=False, max_length=32, null=True, unique=True)),
                (
                    "previous_until",
                    models.DateTimeField(editable=False, help_text="The rotated token works until then.", null=True),
                ),
                ("credits", models.BigIntegerField(default=0, editable=False)),
                (
                    "lifetime_days",
                    models.PositiveIntegerField(editable=False, help_text="How long a token lives, rotated ones too."),
                ),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ("expires_at", models.DateTimeField(editable=False)),
                ("revoked_at", models.DateTimeField(editable=False, null=True)),
                ("revoked_reason", models.CharField(blank=True, editable=False, max_length=200)),
                ("last_charged_at", models.DateTimeField(editable=False, null=True)),
            ],
            options={
                "verbose_name": "API token",
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("credits__gte", 0)), name="apitoken_credits_not_negative"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="CreditEntry",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("amount", models.BigIntegerField()),
                ("balance_after", models.BigIntegerField()),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("issue", "Issue"),
                            ("top-up", "Top Up"),
                            ("search", "Search"),
                            ("adjustment", "Adjustment"),
                            ("refund", "Refund"),
                        ],
                        max_length=10,
                    ),
                ),
                (
                    "actor",
                    models.CharField(
                        blank=True, help_text="Who: an operator's name, or empty for a search.", max_length=150
                    ),
                ),
                ("reason", models.CharField(blank=True, max_length=200)),
                (
                    "reference",
                    models.CharField(blank=True, help_text="The operator's own reference: used once.", max_length=100),
                ),
                ("request_id", models.CharField(blank=True, max_length=64)),
                ("number_hash", models.BinaryField(max_length=32, null=True)),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                (
                    "token",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="entries", to="accounts.apitoken"
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "credit entries",
            },
        ),
        migrations.CreateModel(
            name="IdempotencyRecord",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("key_hash", models.BinaryField(max_length=32)),
                ("number_hash", models.BinaryField(max_length=32)),
                (
                    "answer",
                    models.TextField(blank=True, help_text="The JSON body; empty when the number was forgotten."),
                ),
                ("created_at", models.DateTimeField(db_index=True)),
                (
                    "entry",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="accounts.creditentry",
                    ),
                ),
                (
                    "token",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to="accounts.apitoken"
                    ),
                ),
            ],
        ),
        migrations.AddConstraint(
            model_name="creditentry",
            constraint=models.CheckConstraint(
                condition=models.Q(("balance_after__gte", 0)), name="creditentry_balance_not_negative"
            ),
        ),
        migrations.AddConstraint(
            model_name="creditentry",
            constraint=models.UniqueConstraint(
                condition=models.Q(("reference", ""), _negated=True),
                fields=("token", "reference"),
                name="creditentry_reference_once",
            ),
        ),
        migrations.AddConstraint(
            model_name="creditentry",
            constraint=models.UniqueConstraint(
                condition=models.Q(("kind", "issue"), models.Q(("reference", ""), _negated=True)),
                fields=("reference",),
                name="creditentry_issue_reference_once",
            ),
        ),
        migrations.AddConstraint(
            model_name="idempotencyrecord",
            constraint=models.UniqueConstraint(fields=("token", "key_hash"), name="idempotencyrecord_key_once"),
        ),
        # The ledger refuses UPDATE and DELETE.
        migrations.RunPython(
            lambda apps, editor: ledger_triggers.create_without_forgetting(editor),
            lambda apps, editor: ledger_triggers.drop(editor),
        ),
    ]
