from datetime import timedelta
from typing import Any

from django.core.management.base import CommandParser

from accounts import tokens
from accounts.management.commands._output import JWTCommand, change, find_token
from core import history
from core.amounts import whole_number


class Command(JWTCommand):
    help = (
        "Replace the JWT of an API token by a new one with the full lifetime; credits, ledger and limits stay. The new "
        "one is printed on standard output and cannot be shown again. A second rotation ends the first one's grace "
        "period."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("id", type=whole_number)
        parser.add_argument(
            "--grace-minutes",
            type=whole_number,
            default=0,
            help="minutes for which the previous token stays valid (default: 0, it stops working at once)",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        token, minutes = find_token(options["id"]), options["grace_minutes"]
        too_many = tokens.MAX_GRACE // timedelta(minutes=1) + 1  # a timedelta cannot be of any length
        with change():
            issued = tokens.rotate(token=token, grace=timedelta(minutes=max(-1, min(minutes, too_many))))
            message = f"Rotated, with {minutes} minutes of grace for the earlier token."
            history.record(action=history.Action.CHANGE, target=token, message=message)
        until = issued.token.previous_until
        message = (
            f"Token {issued.token.pk} '{issued.token.name}' is rotated; the previous one "
            + (f"works until {until:%Y-%m-%d %H:%M} UTC" if until else "no longer works")
            + ". The new one cannot be shown again:"
        )
        self.write_jwt(issued, message, options)
