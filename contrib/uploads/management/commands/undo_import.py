from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandError, CommandParser

from contrib.uploads import undo
from core import history
from core.amounts import whole_number
from phonebook.management.import_command import BackgroundCommand
from phonebook.models import ImportBatch


class Command(BackgroundCommand):
    help = (
        "Undo an import: restore the rows that it changed, put back those that it removed, and delete those that it "
        "added. Rows that were changed since are left. The console lists the imports with their ids. Searches continue "
        "meanwhile. If it is interrupted, run it again for the rest."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("id", type=whole_number, help="Of the import.")
        parser.add_argument("--dry-run", action="store_true", help="Only count, without changing anything.")

    def handle(self, *args: Any, **options: Any) -> None:
        batch_id = options["id"]
        try:
            if options["dry_run"]:
                result = undo.preview(batch_id=batch_id)
            else:
                result = undo.undo(batch_id=batch_id, by=history.command_actor())
        except ImportBatch.DoesNotExist:
            raise CommandError(f"There is no import {batch_id}.") from None
        except undo.CannotUndo as error:
            raise CommandError(f"Import {batch_id} cannot be undone. {error}") from error
        except KeyboardInterrupt as error:
            raise CommandError("Interrupted. Run it again for the rest.") from error
        if not options["dry_run"]:
            undo.record(ImportBatch.objects.get(pk=batch_id), result)
        text = f"Import {batch_id}: rows {result}."
        if options["dry_run"]:
            text += " Dry run: nothing was changed."
        self.write_result(options, {**asdict(result), "dry_run": options["dry_run"]}, text)
