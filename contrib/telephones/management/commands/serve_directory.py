import asyncio
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from contrib.telephones import directory, paid_search, slapd_socket
from core.api_client import Refused
from core.http import RequestFailed


class Command(BaseCommand):
    help = (
        "Answer OpenLDAP's slapd, of which telephones search contacts and rules, until it is stopped. Nothing is "
        "charged, unless CALLERID_LDAP_TOKEN is set, which then pays for searches of other numbers. docs/settings.md "
        "has its settings."
    )
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        group = parser.add_mutually_exclusive_group(required=True)
        group.add_argument("--socket", metavar="PATH", type=Path, help="The Unix socket that slapd connects to.")
        group.add_argument("--check", metavar="NUMBER", help="Show what a telephone finds for this caller, and end.")

    def handle(self, *args: Any, **options: Any) -> None:
        if not settings.LDAP_PASSWORD:
            self.stderr.write("CALLERID_LDAP_PASSWORD is not set: telephones cannot log in.", self.style.NOTICE)
        if options["socket"]:
            asyncio.run(self._serve(options["socket"]))
            return
        number = directory.full_number(options["check"])
        if not number:
            raise CommandError("not a number with a country code")
        entry = directory.of_number(number)
        if entry is None and settings.LDAP_TOKEN:
            try:
                entry = paid_search.search(number, timeout_s=slapd_socket.DEADLINE_S)
            except (RequestFailed, Refused) as error:
                raise CommandError(str(error)) from error
        self.stdout.write(f"+{number}: {entry.name if entry else 'no entry'}")

    async def _serve(self, path: Path) -> None:
        try:
            server = await slapd_socket.serve(path)
        except OSError as error:
            raise CommandError(f"{path}: {error.strerror or error}.") from error
        self.stderr.write(f"Answering slapd on {path}.")
        await server.serve_forever()
