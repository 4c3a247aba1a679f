from typing import Any

from django.core.management.base import CommandParser
from django.db import transaction

from accounts import tokens
from accounts.management.commands._output import TokenCommand, as_json
from core import history


class Command(TokenCommand):
    help = "Revoke an API token and its rotated predecessor. Both stop working at once. Cannot be undone."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("id", type=int)
        parser.add_argument("--reason", default="", help="why, for operators")

    def handle(self, *args: Any, **options: Any) -> None:
        token = self.token(options["id"])
        with transaction.atomic():
            now_revoked = tokens.revoke(token=token, reason=options["reason"])
            if now_revoked:
                message = f"Revoked. {options['reason']}".strip()
                history.record(action=history.Action.CHANGE, target=token, message=message)
        token.refresh_from_db()
        text = f"Token {token.pk} '{token.name}' {'is' if now_revoked else 'was already'} revoked."
        self.write_result(options, as_json(token), text)
