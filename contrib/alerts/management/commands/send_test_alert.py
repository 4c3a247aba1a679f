from typing import Any

from django.core.management.base import CommandError

from contrib.alerts import alert_recipients, incidents, notices
from contrib.alerts.models import Notice
from core.commands import JSONCommand


class Command(JSONCommand):
    help = (
        "Send a test alert to everything that gets alerts, with whatever else is due, and say what "
        "happened to it. One that fails is retried by send_notices. Exits with an error unless all were accepted."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        if not alert_recipients.alerts_are_on():
            raise CommandError(
                "Alerts are off: set ALERT_EMAILS or ALERT_WEBHOOK_URLS, or add an alert recipient in the console "
                "(docs/alerts.md)."
            )
        written = [notice.pk for notice in incidents.write_test_alert()]
        for _ in notices.send_due():
            pass
        sent = Notice.objects.filter(pk__in=written).order_by("pk")
        rows = [{"channel": each.channel, "target": each.target, "outcome": each.outcome or "queued"} for each in sent]
        text = "\n".join("{channel} {target}: {outcome}".format(**row) for row in rows)
        self.write_result(options, {"notices": rows}, text)
        if any(row["outcome"] != "sent" for row in rows):
            raise CommandError("Not all were accepted.")
