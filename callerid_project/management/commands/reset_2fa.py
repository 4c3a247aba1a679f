"""Takes a user's second factor away, for whoever has lost the app and the recovery codes."""

import logging
from typing import Any

from django.contrib.auth.models import User
from django.core.management import BaseCommand, CommandError, CommandParser
from django.db import transaction

from accounts import history
from callerid_project import second_factor

log = logging.getLogger(__name__)


class Command(BaseCommand):
    help = "Remove a user's second factor and recovery codes. Set a new password too if it may be known to others."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("username")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            user = User.objects.get(username=options["username"])
        except User.DoesNotExist:
            raise CommandError("There is no user with this name.") from None
        with transaction.atomic():
            removed = second_factor.remove(user)
            if removed:
                history.record_command(action=history.Action.CHANGE, target=user, message="Reset the second factor.")
        if not removed:
            self.stdout.write(f"{user} has no second factor.")
            return
        log.warning("second factor reset: user=%s by=%s", user, history.command_actor())
        self.stdout.write(f"The second factor of {user} was removed.")
