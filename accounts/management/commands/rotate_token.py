from argparse import ArgumentParser
from datetime import timedelta
from typing import Any

from django.core.management.base import CommandError
from django.db import transaction

from accounts import history, tokens
from accounts.management.commands._output import ShowOnceCommand


class Command(ShowOnceCommand):
    help = (
        "Give a token a new JWT with a fresh lifetime; credits, ledger and limits stay. The new one is printed on "
        "standard output this once. A second rotation ends the first one's grace."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("id", type=int)
        parser.add_argument(
            "--grace-minutes",
            type=int,
            default=0,
            help="how long the present one still works; by default it stops at once, which cuts off whoever uses it",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        token, minutes = self.token(options["id"]), options["grace_minutes"]
        try:
            with transaction.atomic():
                issued = tokens.rotate(token=token, grace=timedelta(minutes=minutes))
                message = f"Rotated, with {minutes} minutes of grace for the earlier token."
                history.record_command(action=history.Action.CHANGE, target=token, message=message)
        except tokens.TokenRevoked:
            raise CommandError(f"Token {options['id']} is revoked: issue a new one.") from None
        except (ValueError, OverflowError):
            raise CommandError(f"A grace lasts 0 to {tokens.MAX_GRACE // timedelta(minutes=1)} minutes.") from None
        until = issued.token.previous_until
        sentence = (
            f"Token {issued.token.pk} '{issued.token.name}' is rotated; the earlier one "
            + (f"works until {until:%Y-%m-%d %H:%M} UTC" if until else "no longer works")
            + ". This is the new one's only showing:"
        )
        self.show_once(issued, sentence, options)
