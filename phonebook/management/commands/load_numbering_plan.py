from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandError

from core import history
from core.commands import JSONCommand
from phonebook.imports.numbering_plan import UnknownLanguage, load_numbering_plan

SHOWN_CHANGES = 20


class Command(JSONCommand):
    help = (
        "Load the locations and countries of the world's numbering plan, in PLACE_LANGUAGE, from the installed "
        "phonenumbers package, writing only what differs, and print the changes. Searches continue meanwhile. Does "
        "nothing if that version is loaded and no rows are missing."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            result = load_numbering_plan()
        except UnknownLanguage as error:
            raise CommandError(str(error)) from error
        counts = f"{result.added:,} rows added, {result.changed:,} changed, {result.removed:,} removed."
        if not result.already_loaded:
            name = f"numbering plan {result.version}"
            history.record(action=history.Action.IMPORT, name=name, message=f"Loaded: {counts}")
        if options["json"]:
            self.write_json(asdict(result))
        elif result.already_loaded:
            self.stdout.write(f"Numbering plan {result.version} is already loaded.")
        else:
            before = f" (was {result.before})" if result.before not in ("", result.version) else ""
            self.stdout.write(
                f"Numbering plan {result.version}{before}: {result.prefixes:,} prefixes, {result.countries:,} "
                f"countries; {counts}"
            )
            for change in result.changes[:SHOWN_CHANGES]:
                self.stdout.write(f"  {change['key']}: {change['before'] or '(none)'} → {change['after'] or '(none)'}")
            if (more := len(result.changes) - SHOWN_CHANGES) > 0:
                self.stdout.write(f"  … and {more:,} more: --json lists them all.")
