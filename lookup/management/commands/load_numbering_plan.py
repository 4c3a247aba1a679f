"""Load the world's numbering plan for the `geography` source."""

import json
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from accounts import history
from lookup.datasets.plan import load_numbering_plan
from lookup.management.importing import progress_line

SHOWN_CHANGES = 20


class Command(BaseCommand):
    help = (
        "Load places and countries of the world's numbering plan from the installed phonenumbers package, by "
        "difference to what is there, and say what changed. Searches are answered meanwhile. Does nothing when that "
        "version is loaded."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--force", action="store_true", help="Compare and repair even if that version is loaded.")
        parser.add_argument("--dry-run", action="store_true", help="Compare and count, change nothing.")
        parser.add_argument("--json", action="store_true", help="The counts as one JSON object on stdout.")

    def handle(self, *args: Any, **options: Any) -> None:
        with progress_line(self) as progress:
            result = load_numbering_plan(force=options["force"], dry_run=options["dry_run"], progress=progress)
        if not (options["dry_run"] or result.already_loaded):
            history.record_command(
                action=history.Action.IMPORT,
                name=f"numbering plan {result.version}",
                message=f"Loaded: {result.added:,} rows added, {result.changed:,} changed, {result.removed:,} removed.",
            )
        if options["json"]:
            self.stdout.write(json.dumps({**asdict(result), "dry_run": options["dry_run"]}))
        elif result.already_loaded:
            self.stdout.write(f"Numbering plan {result.version} is already loaded (--force compares it anyway).")
        else:
            before = f" (was {result.before})" if result.before not in ("", result.version) else ""
            self.stdout.write(
                f"Numbering plan {result.version}{before}: {result.prefixes:,} prefixes, {result.countries:,} "
                f"countries; {result.added:,} rows added, {result.changed:,} changed, {result.removed:,} removed."
                + (" Dry run: nothing was changed." if options["dry_run"] else "")
            )
            for change in result.changes[:SHOWN_CHANGES]:
                self.stdout.write(f"  {change.key}: {change.before or '(none)'} → {change.after or '(none)'}")
            if (more := len(result.changes) - SHOWN_CHANGES) > 0:
                self.stdout.write(f"  … and {more:,} more: --json lists them all.")
