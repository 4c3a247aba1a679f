from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError

from accounts import credits
from accounts.management.commands._output import ACTOR, TokenCommand, as_json


class Command(TokenCommand):
    help = "Add credits to a token, with a ledger row."

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("id", type=int)
        parser.add_argument("amount", type=int, help="how many credits, 1 or more")
        parser.add_argument("--note", required=True, help="why; it stands in the ledger")
        parser.add_argument(
            "--reference",
            default="",
            help="your own reference, such as an invoice's: the same again is the same top-up and adds nothing",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        token = self.token(options["id"])
        try:
            entry = credits.top_up(
                token=token,
                amount=options["amount"],
                actor=ACTOR,
                reason=options["note"],
                reference=options["reference"],
            )
        except ValueError as error:
            raise CommandError(str(error)) from error
        token.refresh_from_db()
        if options["json"]:
            self.result(as_json(token))
        else:
            self.stdout.write(
                f"Token {token.pk} '{token.name}' has {token.credits} credits (ledger row {entry.pk}: "
                f"{entry.amount:+d})."
            )
