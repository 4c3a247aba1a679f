"""Delete expired rows of all apps, and expired sessions."""

from typing import Any

from django.conf import settings
from django.contrib.sessions.models import Session
from django.utils import timezone
from django.utils.module_loading import import_string

from accounts import idempotency, request_statistics, unknown_charges
from core.commands import JSONCommand
from core.retention import EXPIRING, KEPT_DAYS
from monitoring import source_statistics, task_runs
from phonebook import cache_versions
from phonebook.imports import batches
from phonebook.imports.complaints import drop_unused_subjects, prune_complaints

_OF_ADDONS = "".join(f"{each.sentence}, " for each in EXPIRING)


class Command(JSONCommand):
    help = (
        f"Delete idempotency records after 24 hours, statistics and settled charges after {KEPT_DAYS} days, complaints "
        f"after {settings.COMPLAINT_KEPT_DAYS} days (COMPLAINT_KEPT_DAYS), unused complaint subjects, imports after "
        f"{KEPT_DAYS} days, {_OF_ADDONS}cache versions after {cache_versions.KEPT.days} days, and expired sessions. "
        "First refund searches that were answered with 500 and yet charged (docs/ledger.md). Safe while serving; run "
        "it daily from cron."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        unknown_charges.ChargeSettler().flush()
        of_addons = {each.name: import_string(each.prune)() for each in EXPIRING}
        deleted = {
            "idempotency_records": idempotency.prune(),
            "usage_rows": source_statistics.prune() + request_statistics.prune(),
            "unknown_charges": unknown_charges.prune(),
            "complaint_days": prune_complaints(),
            "imports": batches.prune(),
            "subjects": drop_unused_subjects(),
            "cache_versions": cache_versions.prune(),
            "sessions": Session.objects.filter(expire_date__lt=timezone.now()).delete()[0],
            **of_addons,
        }
        task_runs.record(task_runs.PRUNE, succeeded=True)
        counts = ", ".join(f"{name.replace('_', ' ')} {count}" for name, count in deleted.items())
        self.write_result(options, deleted, f"Deleted: {counts}.")
