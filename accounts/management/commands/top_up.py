from typing import Any

from django.core.management.base import CommandParser

from accounts import credits
from accounts.management.commands._output import as_json, change, find_token
from core import history
from core.amounts import decimal_number, whole_number
from core.commands import JSONCommand


class Command(JSONCommand):
    help = "Add credits to an API token, with a ledger entry. Refused for a revoked token and for a test token."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("id", type=whole_number)
        parser.add_argument("amount", type=whole_number, help="how many credits, 1 or more")
        parser.add_argument("--price", type=decimal_number, help="paid in total (default: the amount x CREDIT_PRICE)")
        parser.add_argument("--note", required=True, help="the reason, shown in the ledger")
        parser.add_argument("--reference", default="", help="invoice or order number; repeating it adds nothing")

    def handle(self, *args: Any, **options: Any) -> None:
        token = find_token(options["id"])
        with change():
            entry, is_new = credits.top_up(
                token=token,
                amount=options["amount"],
                actor=history.command_actor(),
                reason=options["note"],
                reference=options["reference"],
                price=options["price"],
            )
            if is_new:
                message = (
                    f"Added ledger entry {entry.pk}, top-up of {entry.amount:+d} credits, balance "
                    f"{entry.balance_after}. Reason: {entry.reason}"
                )
                history.record(action=history.Action.CHANGE, target=token, message=message)
        token.refresh_from_db()
        text = (
            f"Token {token.pk} '{token.name}' has {token.credits} credits (ledger entry {entry.pk}: {entry.amount:+d})."
        )
        self.write_result(options, as_json(token), text)
