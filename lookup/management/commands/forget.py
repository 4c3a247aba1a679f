"""Forget phone numbers."""

import json
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from accounts import history
from lookup import erasure, marks, numbers

MAX_NAMED = 5


class Command(BaseCommand):
    help = (
        "Forget phone numbers: deletes their contacts, complaints and rules; uses no vendor's answer that was kept; "
        "takes them out of the ledger, of remembered answers and of the admin's history, where who did what, and what "
        "was paid, stays. Numbers have their country code and may have a +, spaces, hyphens, dots and parentheses. "
        "Nothing is removed unless all of them can be read. Safe while serving, and can be repeated. "
        "It does not reach: backups; logs (numbers are masked there); what vendors know; answers already sent, and "
        "that of a search or an import under way, after which it can be repeated; what operators typed into notes, "
        "names and reasons elsewhere. Without --block a later import may bring a number back."
    )
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("numbers", nargs="+", metavar="NUMBER", help="Country code and number.")
        how = parser.add_mutually_exclusive_group()
        how.add_argument("--block", action="store_true", help="Imports leave them out from now on.")
        how.add_argument("--unblock", action="store_true", help="Only lift that block; forget nothing.")
        parser.add_argument("--json", action="store_true", help="The counts as one JSON object on stdout.")

    def handle(self, *args: Any, **options: Any) -> None:
        given = list(dict.fromkeys(_read(options["numbers"])))
        result: dict[str, Any] = {"numbers": [numbers.mask(number) for number in given]}
        shown = ", ".join(map(_shown, given))
        if options["unblock"]:
            result["unblocked"] = marks.unblock(given)
            sentence = f"Unblocked {result['unblocked']} of {len(given)} numbers: imports take them again."
        else:
            result |= asdict(erasure.forget(given, block=options["block"]))
            if not any(count for name, count in result.items() if name not in ("numbers", "overwritten")):
                self.stderr.write(f"Nothing was stored about {shown}. Is the country right?")
            if result["overwritten"] is False:
                self.stderr.write(
                    "Something was reading the database: its file may still hold what was deleted. Repeat this later."
                )
            result["blocked"] = len(marks.blocked_hashes().intersection(map(marks.hash_of, given)))
            sentence = (
                "Forgot {0}. Deleted: contacts {contacts}, complaint days {complaint_days} "
                "(subjects {subjects}), rules {rules}. "
                "Emptied: ledger rows {ledger_entries}, remembered answers {stored_answers}, entries of the admin's "
                "history {admin_entries}."
            ).format(shown, **result)
            if result["blocked"]:
                sentence += f" Blocked: imports leave out {result['blocked']} of {len(given)} numbers."
        # Of what is forgotten the history, like the log, has the country codes and the last two digits.
        masked = [numbers.mask(number) for number in given]
        name = ", ".join(masked) if len(masked) <= MAX_NAMED else f"{len(masked)} numbers"
        action = history.Action.CHANGE if options["unblock"] else history.Action.DELETION
        history.record_command(action=action, name=name, message=sentence.replace(shown, name))
        self.stdout.write(json.dumps(result) if options["json"] else sentence)


def _shown(number: str) -> str:
    """Masked, with its country: a number whose country code was left out is another country's."""
    return f"{numbers.mask(number)} ({numbers.region(number) or 'no country'})"


def _read(texts: list[str]) -> list[str]:
    """Raises CommandError, which repeats no number."""
    read = []
    for position, text in enumerate(texts, start=1):
        try:
            read.append(numbers.read(text))
        except numbers.InvalidNumber as error:
            raise CommandError(f"argument {position}: invalid phone number ({error}). Nothing was changed.") from None
    return read
