import django.db.models.deletion
import django.utils.timezone
from django.db import migrations, models
from django.db.models import Sum
from django.db.models.functions import TruncDate

from accounts import ledger_triggers


def sum_up_what_was_booked(apps, editor):
    entries = apps.get_model("accounts", "CreditEntry").objects.exclude(kind="search")
    days = entries.annotate(day=TruncDate("created_at")).values("day", "kind").annotate(total=Sum("amount"))
    apps.get_model("accounts", "CreditDay").objects.bulk_create(
        apps.get_model("accounts", "CreditDay")(day=row["day"], kind=row["kind"], amount=row["total"])
        for row in days.order_by("day", "kind")
    )


def require_no_refund(apps, editor):
    if apps.get_model("accounts", "CreditEntry").objects.filter(refunds__isnull=False).exists():
        raise RuntimeError(
            "The ledger has refunds: without the column that names it, a search could be refunded again."
        )


class Migration(migrations.Migration):
    dependencies = [
        ("accounts", "0002_forgetting"),
    ]

    operations = [
        migrations.RunPython(
            lambda apps, editor: ledger_triggers.drop(editor),
            lambda apps, editor: ledger_triggers.create_without_refunds(editor),
        ),
        migrations.CreateModel(
            name="CreditDay",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("day", models.DateField()),
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
                ("amount", models.BigIntegerField(default=0)),
            ],
        ),
        migrations.CreateModel(
            name="Notice",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("threshold", models.PositiveBigIntegerField()),
                ("balance", models.BigIntegerField()),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                (
                    "due_at",
                    models.DateTimeField(help_text="When it is tried next; empty when it is settled.", null=True),
                ),
                ("attempts", models.PositiveIntegerField(default=0)),
                ("sent_at", models.DateTimeField(null=True)),
                ("outcome", models.CharField(blank=True, help_text="What became of it.", max_length=100)),
            ],
        ),
        migrations.CreateModel(
            name="SearchHour",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("hour", models.DateTimeField(help_text="When it begins (UTC).")),
                ("outcome", models.CharField(max_length=16)),
                ("count", models.BigIntegerField(default=0)),
            ],
        ),
        migrations.CreateModel(
            name="TokenDay",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("day", models.DateField()),
                ("outcome", models.CharField(max_length=16)),
                ("count", models.BigIntegerField(default=0)),
            ],
        ),
        migrations.AlterModelOptions(
            name="apitoken",
            options={
                "permissions": [
                    ("top_up_apitoken", "Can top up a token, within SUPPORT_CREDITS_PER_DAY"),
                    ("give_any_credits", "Can give credits without that limit"),
                    ("adjust_apitoken", "Can adjust the balance of a token"),
                    ("rotate_apitoken", "Can rotate a token"),
                    ("revoke_apitoken", "Can revoke a token"),
                ],
                "verbose_name": "API token",
            },
        ),
        migrations.AlterModelOptions(
            name="creditentry",
            options={
                "permissions": [
                    ("refund_creditentry", "Can refund a search, within SUPPORT_CREDITS_PER_DAY"),
                    ("export_creditentry", "Can export the ledger"),
                ],
                "verbose_name": "ledger row",
            },
        ),
        migrations.AddField(
            model_name="apitoken",
            name="contact",
            field=models.EmailField(blank=True, help_text="Gets a notice when the balance is low.", max_length=254),
        ),
        migrations.AddField(
            model_name="apitoken",
            name="low_balance_at",
            field=models.PositiveBigIntegerField(
                blank=True,
                help_text="Credits: a notice is sent when the balance falls to this.",
                null=True,
                verbose_name="low balance at",
            ),
        ),
        migrations.AddField(
            model_name="creditentry",
            name="refunds",
            field=models.ForeignKey(
                db_index=False,
                help_text="The search that this line gives back.",
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="refunded_by",
                to="accounts.creditentry",
            ),
        ),
        migrations.AlterField(
            model_name="creditentry",
            name="token",
            field=models.ForeignKey(
                db_index=False,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="entries",
                to="accounts.apitoken",
            ),
        ),
        migrations.AddIndex(
            model_name="creditentry",
            index=models.Index(fields=["token", "created_at"], name="creditentry_token_created"),
        ),
        migrations.AddIndex(
            model_name="creditentry",
            index=models.Index(fields=["created_at"], name="creditentry_created"),
        ),
        migrations.AddIndex(
            model_name="creditentry",
            index=models.Index(fields=["request_id"], name="creditentry_request"),
        ),
        migrations.AddIndex(
            model_name="creditentry",
            index=models.Index(
                condition=models.Q(("kind", "search"), _negated=True),
                fields=["created_at"],
                name="creditentry_booked_created",
            ),
        ),
        migrations.AddIndex(
            model_name="creditentry",
            index=models.Index(
                condition=models.Q(("kind", "search"), _negated=True),
                fields=["token", "created_at"],
                name="creditentry_token_booked",
            ),
        ),
        migrations.AddConstraint(
            model_name="creditentry",
            constraint=models.UniqueConstraint(
                condition=models.Q(("refunds__isnull", False)), fields=("refunds",), name="creditentry_refunded_once"
            ),
        ),
        migrations.AddConstraint(
            model_name="creditday",
            constraint=models.UniqueConstraint(fields=("day", "kind"), name="creditday_day_kind_once"),
        ),
        migrations.AddField(
            model_name="notice",
            name="token",
            field=models.ForeignKey(
                on_delete=django.db.models.deletion.PROTECT, related_name="notices", to="accounts.apitoken"
            ),
        ),
        migrations.AddConstraint(
            model_name="searchhour",
            constraint=models.UniqueConstraint(fields=("hour", "outcome"), name="searchhour_hour_outcome_once"),
        ),
        migrations.AddField(
            model_name="tokenday",
            name="token",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.DO_NOTHING,
                related_name="days",
                to="accounts.apitoken",
            ),
        ),
        migrations.AddIndex(
            model_name="notice",
            index=models.Index(condition=models.Q(("due_at__isnull", False)), fields=["due_at"], name="notice_due"),
        ),
        migrations.AddIndex(
            model_name="tokenday",
            index=models.Index(fields=["day"], name="tokenday_day"),
        ),
        migrations.AddConstraint(
            model_name="tokenday",
            constraint=models.UniqueConstraint(
                fields=("token", "day", "outcome"), name="tokenday_token_day_outcome_once"
            ),
        ),
        migrations.RunPython(
            lambda apps, editor: ledger_triggers.create(editor), lambda apps, editor: ledger_triggers.drop(editor)
        ),
        migrations.RunPython(sum_up_what_was_booked, require_no_refund),
    ]
