"""What the token commands share: results on standard output, talk on standard error."""

import json
from argparse import ArgumentParser
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from django.core.management.base import BaseCommand, CommandError

from accounts.models import ApiToken

if TYPE_CHECKING:  # importing the JWT library would slow every other command's start
    from accounts.tokens import Issued


class TokenCommand(BaseCommand):
    requires_system_checks = []

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--json", action="store_true", help="print the result as JSON")

    def token(self, token_id: int) -> ApiToken:
        try:
            return ApiToken.objects.get(pk=token_id)
        except (ApiToken.DoesNotExist, OverflowError):
            raise CommandError(f"There is no token {token_id}. See: manage.py list_tokens") from None

    def result(self, value: Any) -> None:
        self.stdout.write(json.dumps(value, ensure_ascii=False))

    def talk(self, sentence: str) -> None:
        self.stderr.write(sentence, style_func=lambda text: text)


class ShowOnceCommand(TokenCommand):
    """A command that makes a JWT: it is the result, and this is its only showing."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--quiet", action="store_true", help="print the token and nothing else")

    def show_once(self, issued: "Issued", sentence: str, options: dict[str, Any]) -> None:
        if options["json"]:
            self.result(as_json(issued.token, api_key=issued.api_key))
            return
        if not options["quiet"]:
            self.talk(sentence)
        self.stdout.write(issued.api_key)


def as_json(token: ApiToken, *, api_key: str | None = None) -> dict[str, Any]:
    """A token as every command prints it; `api_key` only where one was made."""
    shown = {
        "id": token.pk,
        "name": token.name,
        "credits": token.credits,
        "state": token.state,
        "expires_at": utc(token.expires_at),
        "created_at": utc(token.created_at),
    }
    return shown if api_key is None else {**shown, "api_key": api_key}


def utc(moment: datetime) -> str:
    """ISO 8601 in whole seconds, `2027-01-31T12:00:00Z`."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
