from typing import Any

from django.core.management.base import CommandParser

from accounts import tokens
from accounts.management.commands._output import as_json, change, find_token
from core import history
from core.amounts import whole_number
from core.commands import JSONCommand


class Command(JSONCommand):
    help = "Revoke an API token and its rotated predecessor. Both stop working at once. Cannot be undone."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("id", type=whole_number)
        parser.add_argument("--reason", default="", help="why, for operators")

    def handle(self, *args: Any, **options: Any) -> None:
        token = find_token(options["id"])
        with change():
            now_revoked = tokens.revoke(token=token, reason=options["reason"])
            if now_revoked:
                message = f"Revoked. Reason: {options['reason'] or 'none given'}"
                history.record(action=history.Action.CHANGE, target=token, message=message)
        token.refresh_from_db()
        text = f"Token {token.pk} '{token.name}' {'is' if now_revoked else 'was already'} revoked."
        self.write_result(options, as_json(token), text)
