from typing import Any

from accounts import idempotency
from accounts.management.commands._output import TokenCommand


class Command(TokenCommand):
    help = "Delete remembered answers whose 24 hours are over. Safe while serving; run it from cron."

    def handle(self, *args: Any, **options: Any) -> None:
        records = idempotency.prune()
        if options["json"]:
            self.result({"idempotency_records": records})
        else:
            self.stdout.write(f"Deleted {records} remembered answers.")
