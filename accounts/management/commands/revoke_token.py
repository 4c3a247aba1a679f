from argparse import ArgumentParser
from typing import Any

from django.db import transaction

from accounts import history, tokens
from accounts.management.commands._output import TokenCommand, as_json


class Command(TokenCommand):
    help = "Revoke a token, and its rotated predecessor: from the next request on neither works. Cannot be undone."

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("id", type=int)
        parser.add_argument("--reason", default="", help="why, for operators")

    def handle(self, *args: Any, **options: Any) -> None:
        token = self.token(options["id"])
        with transaction.atomic():
            now_revoked = tokens.revoke(token=token, reason=options["reason"])
            if now_revoked:
                message = f"Revoked. {options['reason']}".strip()
                history.record_command(action=history.Action.CHANGE, target=token, message=message)
        token.refresh_from_db()
        if options["json"]:
            self.result(as_json(token))
        else:
            self.stdout.write(f"Token {token.pk} '{token.name}' {'is' if now_revoked else 'was already'} revoked.")
