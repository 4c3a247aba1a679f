"""`manage.py send_notices`"""

import json
from collections import Counter
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from accounts import notices


class Command(BaseCommand):
    help = (
        "Send the low-balance notices that are due, to their tokens' contacts. Run it every minute or so, from cron or "
        "a timer. One that fails is tried again after 1, 5, 15 minutes, 1, 4, 12 and 24 hours, and then given up; one "
        "that is no longer needed, for the token was topped up or revoked, is not sent. Two at once share the work. "
        "Ends with an error when one could not be sent."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--json", action="store_true", help="print the result as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        if not settings.LOW_BALANCE_NOTICES:
            raise CommandError("Notices are off: set LOW_BALANCE_NOTICES=true, EMAIL_URL and EMAIL_FROM.")
        became = Counter(sent.outcome for sent in notices.send_due())
        told = {outcome: became[outcome] for outcome in ("sent", "not needed", "failed", "given up")}
        if options["json"]:
            self.stdout.write(json.dumps({outcome.replace(" ", "_"): how_many for outcome, how_many in told.items()}))
        else:
            self.stdout.write(
                "{sent} sent, {not needed} not needed any more, {failed} failed and due again later, {given up} given "
                "up.".format(**told)
            )
        if told["failed"] or told["given up"]:
            raise CommandError("The mail server did not take all of them; the log says why.")
