from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db import transaction

from accounts import credits
from accounts.management.commands._output import TokenCommand, as_json, price
from accounts.models import ApiToken
from core import history


class Command(TokenCommand):
    help = "Add credits to an API token, with a ledger entry. Refused for a revoked token and for a test token."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("id", type=int)
        parser.add_argument("amount", type=int, help="how many credits, 1 or more")
        parser.add_argument("--price", type=price, help="paid in total (default: the amount x CREDIT_PRICE)")
        parser.add_argument("--note", required=True, help="the reason, shown in the ledger")
        parser.add_argument("--reference", default="", help="invoice or order number; repeating it adds nothing")

    def handle(self, *args: Any, **options: Any) -> None:
        token = self.token(options["id"])
        reference = options["reference"].strip()
        try:
            with transaction.atomic():
                # Locked, so that the second of two concurrent calls with one reference sees the first one's entry.
                ApiToken.objects.select_for_update().get(pk=token.pk)
                repeated = reference != "" and token.entries.filter(reference=reference).exists()
                entry = credits.top_up(
                    token=token,
                    amount=options["amount"],
                    actor=history.command_actor(),
                    reason=options["note"],
                    reference=reference,
                    price=options["price"],
                )
                if not repeated:
                    message = (
                        f"Added ledger entry {entry.pk}, top-up of {entry.amount:+d} credits, balance "
                        f"{entry.balance_after}. {entry.reason}"
                    )
                    history.record(action=history.Action.CHANGE, target=token, message=message)
        except ValueError as error:
            raise CommandError(str(error)) from error
        token.refresh_from_db()
        text = (
            f"Token {token.pk} '{token.name}' has {token.credits} credits (ledger entry {entry.pk}: {entry.amount:+d})."
        )
        self.write_result(options, as_json(token), text)
