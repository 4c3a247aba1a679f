"""Delete what is past its age, in both apps."""

import json
from typing import Any

from django.conf import settings
from django.contrib.sessions.models import Session
from django.core.management.base import BaseCommand, CommandParser
from django.utils import timezone

from accounts import activity, idempotency, notices
from accounts.pruning import KEPT_DAYS
from lookup import marks, retention, usage
from lookup.datasets.complaints import drop_unused_subjects


class Command(BaseCommand):
    help = (
        f"Delete remembered answers whose 24 hours are over, statistics and settled notices older than "
        f"{KEPT_DAYS} days, complaints older than {settings.COMPLAINT_KEPT_DAYS} days (COMPLAINT_KEPT_DAYS), "
        f"subjects that no complaint has any more, marks of corrected and forgotten numbers after "
        f"{marks.KEPT.days} days, and sessions of the console that have expired. Safe while serving; run it from cron."
    )
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="print the result as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        deleted = {
            "idempotency_records": idempotency.prune(),
            "usage_rows": usage.prune() + activity.prune(),
            "notices": notices.prune(),
            "complaint_days": retention.prune_complaints(),
            "subjects": drop_unused_subjects(),
            "marks": marks.prune(),
            "sessions": Session.objects.filter(expire_date__lt=timezone.now()).delete()[0],
        }
        if options["json"]:
            self.stdout.write(json.dumps(deleted))
        else:
            told = (
                "Deleted {idempotency_records} remembered answers, {usage_rows} rows of statistics, {notices} settled "
                "notices, {complaint_days} days of complaints, {subjects} of their subjects, {marks} marks and "
                "{sessions} expired sessions."
            )
            self.stdout.write(told.format(**deleted))
