"""Removes the two-factor authentication of a user who has lost the app and the recovery codes."""

import logging
from typing import Any

from django.contrib.auth.models import User
from django.core.management import BaseCommand, CommandError, CommandParser

from console import second_factor
from core import history

log = logging.getLogger(__name__)


class Command(BaseCommand):
    help = "Remove a user's two-factor authentication. Set a new password too if others may know it."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("username")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            user = User.objects.get(username=options["username"])
        except User.DoesNotExist:
            raise CommandError("There is no user with this name.") from None
        if not second_factor.remove(user, "Reset two-factor authentication.", by=None):
            self.stdout.write(f"{user} has no two-factor authentication.")
            return
        log.warning("second factor reset: user=%s by=%s", user, history.command_actor())
        self.stdout.write(f"Two-factor authentication of {user} was removed.")
