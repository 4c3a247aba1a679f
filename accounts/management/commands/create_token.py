from typing import Any

from django.core.management.base import CommandParser

from accounts import customers, tokens
from accounts.management.commands._output import JWTCommand, change
from core import history
from core.amounts import decimal_number, whole_number


class Command(JWTCommand):
    help = (
        "Issue an API token. It is printed on standard output and cannot be shown again; messages go to standard error."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("name", help="the app or site that uses it")
        kind = parser.add_mutually_exclusive_group(required=True)
        kind.add_argument("--credits", type=whole_number, help="initial credits, 0 or more; a search costs one")
        kind.add_argument(
            "--test",
            action="store_true",
            help="a test token: never charged, and answered by number (docs/test-mode.md)",
        )
        parser.add_argument("--customer", help="the id or name of the customer who owns it")
        parser.add_argument("--price", type=decimal_number, help="paid in total (default: the credits x CREDIT_PRICE)")
        parser.add_argument(
            "--rate-limit",
            type=whole_number,
            help="requests in the window of RATE_LIMIT (test token: TEST_RATE_LIMIT), if not its number",
        )
        parser.add_argument("--days", type=whole_number, help="days until it expires (default: TOKEN_DAYS)")
        parser.add_argument("--contact", default="", help="e-mail address for low-balance notices")
        parser.add_argument(
            "--low-balance-at", type=whole_number, help="the balance, in credits, at which a notice is sent"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        with change():
            issued = tokens.issue(
                name=options["name"],
                initial_credits=options["credits"] or 0,
                is_test=options["test"],
                price=options["price"],
                days=options["days"],
                actor=history.command_actor(),
                contact=options["contact"],
                low_balance_at=options["low_balance_at"],
                rate_limit=options["rate_limit"],
                customer=customers.get_by_name_or_id(options["customer"]) if options["customer"] else None,
            )
            token = issued.token
            kind = "no credits (a test token)" if token.is_test else f"{token.credits} credits"
            message = f"Issued: {kind}, {token.lifetime_days} days."
            history.record(action=history.Action.ADDITION, target=token, message=message)
        message = (
            f"Token {token.pk} '{token.name}' with {kind}, valid until {token.expires_at:%Y-%m-%d}. "
            "It cannot be shown again:"
        )
        self.write_jwt(issued, message, options)
