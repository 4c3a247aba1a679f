from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandParser

from core import history
from core.commands import JSONCommand
from phonebook.imports.numbering_plan import load_numbering_plan

SHOWN_CHANGES = 20


class Command(JSONCommand):
    help = (
        "Load the locations and countries of the world's numbering plan from the installed phonenumbers package, "
        "writing only what differs, and print the changes. Searches continue meanwhile. Does nothing if that version "
        "is loaded."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("--force", action="store_true", help="Compare and repair even if that version is loaded.")
        parser.add_argument("--dry-run", action="store_true", help="Compare and count, without changing anything.")

    def handle(self, *args: Any, **options: Any) -> None:
        result = load_numbering_plan(force=options["force"], dry_run=options["dry_run"])
        counts = f"{result.added:,} rows added, {result.changed:,} changed, {result.removed:,} removed."
        if not (options["dry_run"] or result.already_loaded):
            name = f"numbering plan {result.version}"
            history.record(action=history.Action.IMPORT, name=name, message=f"Loaded: {counts}")
        if options["json"]:
            self.write_json({**asdict(result), "dry_run": options["dry_run"]})
        elif result.already_loaded:
            self.stdout.write(f"Numbering plan {result.version} is already loaded (compare it with --force).")
        else:
            before = f" (was {result.before})" if result.before not in ("", result.version) else ""
            self.stdout.write(
                f"Numbering plan {result.version}{before}: {result.prefixes:,} prefixes, {result.countries:,} "
                f"countries; {counts}" + (" Dry run: nothing was changed." if options["dry_run"] else "")
            )
            for change in result.changes[:SHOWN_CHANGES]:
                self.stdout.write(f"  {change['key']}: {change['before'] or '(none)'} → {change['after'] or '(none)'}")
            if (more := len(result.changes) - SHOWN_CHANGES) > 0:
                self.stdout.write(f"  … and {more:,} more: --json lists them all.")
