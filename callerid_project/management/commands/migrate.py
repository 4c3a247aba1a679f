from typing import Any

from django.conf import settings
from django.core.management.base import CommandError, CommandParser
from django.core.management.commands import migrate
from django.db import OperationalError, connections

from core import schema_state
from core.amounts import whole_number

LOCK_NOT_AVAILABLE = "55P03"


class Command(migrate.Command):
    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--lock-timeout-ms",
            type=whole_number,
            default=200,
            help="PostgreSQL: fail when a lock is not available for so long, because searches wait behind it "
            "(default: 200, less than DB_STATEMENT_TIMEOUT_MS; 0: wait)",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if schema_state.migration_problem(schema_state.applied_migrations()) == schema_state.TOO_OLD:
            raise CommandError(f"{schema_state.TOO_OLD}.")
        connection = connections[options["database"]]
        # Nothing may be set in a session that a pooler shares (DB_PREPARE).
        if connection.vendor != "postgresql" or not settings.DB_PREPARE:
            super().handle(*args, **options)
            return
        with connection.cursor() as cursor:
            cursor.execute("SELECT set_config('lock_timeout', %s, false)", [f"{options['lock_timeout_ms']}ms"])
        try:
            super().handle(*args, **options)
        except OperationalError as error:
            if getattr(error.__cause__, "sqlstate", None) != LOCK_NOT_AVAILABLE:
                raise
            raise CommandError(
                f"A transaction has held a lock that the migration needs for {options['lock_timeout_ms']} ms. This "
                "migration was not applied, and the service goes on. Run the command again when the transaction has "
                "ended; docs/upgrading.md says how to find it."
            ) from error
        finally:
            if connection.is_usable():
                with connection.cursor() as cursor:
                    cursor.execute("RESET lock_timeout")
