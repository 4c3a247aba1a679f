"""Invites a user to the console by e-mail."""

from typing import Any

from django.conf import settings
from django.contrib.auth.models import Group, User
from django.core.exceptions import ValidationError
from django.core.management import BaseCommand, CommandError, CommandParser

from console import invitations


class Command(BaseCommand):
    help = (
        "Create a user without a password, and send a link with which the person sets one. Without EMAIL_URL and "
        "EMAIL_FROM the link is printed instead. PUBLIC_URL must be set."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("username")
        parser.add_argument("email")
        parser.add_argument("--role", action="append", default=[], metavar="ROLE", help="may be given several times")
        parser.add_argument("--superuser", action="store_true", help="give superuser status")
        parser.add_argument("--print-link", action="store_true", help="print the link instead of sending it")

    def handle(self, *args: Any, **options: Any) -> None:
        if not settings.PUBLIC_URL:
            raise CommandError("Set PUBLIC_URL, such as https://callerid.example.org: the link starts with it.")
        if not options["role"] and not options["superuser"]:
            raise CommandError("Give --role ROLE, or --superuser.")
        groups = list(Group.objects.filter(name__in=options["role"]))
        if unknown := set(options["role"]) - {group.name for group in groups}:
            existing = ", ".join(Group.objects.order_by("name").values_list("name", flat=True))
            raise CommandError(f"There is no role {', '.join(sorted(unknown))}. The roles are: {existing}.")
        username, email = User.normalize_username(options["username"]), options["email"]
        try:
            User(username=username, email=email).full_clean(exclude=["password"])
        except ValidationError as error:
            raise CommandError(" ".join(error.messages)) from None
        invitation = invitations.invite(
            username=username, email=email, groups=groups, is_superuser=options["superuser"]
        )
        url = invitations.link(invitation, settings.PUBLIC_URL)
        until = f"It works once, until {invitations.expires_at(invitation):%Y-%m-%d %H:%M} UTC."
        if not options["print_link"]:
            problem = invitations.send(invitation, url)
            if not problem:
                self.stdout.write(f"Sent the invitation of {username}. {until}")
                return
            self.stdout.write(f"{problem} Hand over this link yourself:")
        self.stdout.write(f"{url}\n{until}")
