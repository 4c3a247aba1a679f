"""Shared parts of the token commands: results go to standard output, messages to standard error."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from django.core.management.base import CommandError, CommandParser
from django.db import transaction

from accounts.models import ApiToken, Customer
from core.commands import JSONCommand, command_line
from core.periods import iso

if TYPE_CHECKING:  # importing the JWT library would slow every other command's start
    from accounts.tokens import Issued


@contextmanager
def change() -> Iterator[None]:
    """A transaction, with its History entry. What the services refuse is the command's error."""
    try:
        with transaction.atomic():
            yield
    except (ValueError, OverflowError) as error:
        raise CommandError(str(error)) from error


def find_token(token_id: int) -> ApiToken:
    try:
        return ApiToken.objects.get(pk=token_id)
    except (ApiToken.DoesNotExist, OverflowError):
        raise CommandError(f"There is no token {token_id}. See: {command_line('list_tokens')}") from None


class JWTCommand(JSONCommand):
    """A command whose result is a new JWT, which cannot be shown again."""

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--quiet", action="store_true", help="print only the token")

    def write_jwt(self, issued: "Issued", message: str, options: dict[str, Any]) -> None:
        if not (options["json"] or options["quiet"]):
            self.stderr.write(message, style_func=lambda text: text)
        self.write_result(options, as_json(issued.token) | {"api_key": issued.api_key}, issued.api_key)


def as_json(token: ApiToken) -> dict[str, Any]:
    """A token as every command prints it."""
    return {
        "id": token.pk,
        "name": token.name,
        "hint": token.hint,
        "customer": token.customer_id,
        "test": token.is_test,
        "credits": token.credits,
        "rate_limit": token.rate_limit,
        "state": token.state,
        "expires_at": iso(token.expires_at),
        "created_at": iso(token.created_at),
    }


def customer_as_json(customer: Customer) -> dict[str, Any]:
    return {
        "id": customer.pk,
        "name": customer.name,
        "contacts": [contact.email for contact in customer.contacts.all()],
        "created_at": iso(customer.created_at),
    }
