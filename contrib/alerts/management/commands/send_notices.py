from collections import Counter
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError
from django.utils import timezone

from contrib.alerts import alert_recipients, checking, low_balance, notices
from core.commands import JSONCommand
from monitoring import task_runs


class Command(JSONCommand):
    help = (
        "Check the conditions that alerts report (docs/alerts.md), read in the ledger which balances fell to their "
        "thresholds, and send the alerts and the low-balance notices that are due, by e-mail and webhook. Run it every "
        "minute, from cron or a timer. A notice that fails is retried after 1, 5, 15 minutes, 1, 4, 12 and 24 hours, "
        "and then given up. A low-balance notice is not sent if the token was topped up or revoked meanwhile. Two "
        "processes at once share the work. Exits with an error when a notice could not be sent."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        alerts_on = alert_recipients.alerts_are_on()
        if not alerts_on:
            task_runs.forget(checking.TASK)  # else /metrics would tell for ever how long ago the last check was
        opened, closed = checking.check() if alerts_on else (0, 0)
        low_balance.write_notices(timezone.now())
        if not (settings.LOW_BALANCE_NOTICES or alerts_on):
            raise CommandError(
                "Notices and alerts are off: set LOW_BALANCE_NOTICES=true, EMAIL_URL and EMAIL_FROM, or ALERT_EMAILS "
                "or ALERT_WEBHOOK_URLS, or add an alert recipient in the console (docs/alerts.md)."
            )
        results = Counter(notices.send_due())
        counts = {outcome: results[outcome] for outcome in ("sent", "not needed", "failed", "given up")}
        text = "{sent} sent, {not needed} no longer needed, {failed} failed and will be retried, {given up} given up."
        if alerts_on:
            text = f"Incidents: {opened} opened, {closed} resolved. Notices: {text}"
        result = {outcome.replace(" ", "_"): count for outcome, count in counts.items()}
        self.write_result(options, {**result, "opened": opened, "resolved": closed}, text.format(**counts))
        if counts["failed"] or counts["given up"]:
            raise CommandError("The mail server or a webhook did not accept all of them; the log has the reasons.")
