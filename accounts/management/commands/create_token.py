from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError
from django.db import transaction

from accounts import history, tokens
from accounts.management.commands._output import ShowOnceCommand


class Command(ShowOnceCommand):
    help = (
        "Issue a token. It is printed on standard output this once and cannot be shown again; what is said about it "
        "goes to standard error."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("name", help="whose token it is, for operators")
        parser.add_argument("--credits", type=int, required=True, help="searches it can pay for at first, 0 or more")
        parser.add_argument("--days", type=int, help="how long it lives (default: TOKEN_DAYS)")
        parser.add_argument("--contact", default="", help="an e-mail address, which gets a notice of a low balance")
        parser.add_argument("--low-balance-at", type=int, help="the balance at which it gets it, in credits")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            with transaction.atomic():
                issued = tokens.issue(
                    name=options["name"],
                    initial_credits=options["credits"],
                    days=options["days"],
                    actor=history.command_actor(),
                    contact=options["contact"],
                    low_balance_at=options["low_balance_at"],
                )
                history.record_command(
                    action=history.Action.ADDITION,
                    target=issued.token,
                    message=f"Issued: {issued.token.credits} credits, {issued.token.lifetime_days} days.",
                )
        except ValueError as error:
            raise CommandError(str(error)) from error
        token = issued.token
        sentence = (
            f"Token {token.pk} '{token.name}' with {token.credits} credits, valid until {token.expires_at:%Y-%m-%d}. "
            "This is its only showing:"
        )
        self.show_once(issued, sentence, options)
