"""Delete what is past its age, in both apps."""

import json
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from accounts import idempotency
from lookup import usage


class Command(BaseCommand):
    help = (
        f"Delete remembered answers whose 24 hours are over, and statistics older than {usage.KEPT_DAYS} days. Safe "
        "while serving; run it from cron."
    )
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="print the result as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        deleted = {"idempotency_records": idempotency.prune(), "usage_rows": usage.prune()}
        if options["json"]:
            self.stdout.write(json.dumps(deleted))
        else:
            self.stdout.write(
                f"Deleted {deleted['idempotency_records']} remembered answers and {deleted['usage_rows']} rows of "
                "statistics."
            )
