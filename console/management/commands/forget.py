from typing import Any

from django.core.management.base import CommandError, CommandParser

from console import erasure
from core import history, numbers
from core.commands import JSONCommand
from core.retention import NUMBERED
from phonebook import suppression

MAX_NAMED = 5


class Command(JSONCommand):
    help = (
        "Erase phone numbers: delete their contacts, complaints, rules and what add-ons keep, invalidate vendors' "
        "cached answers, and remove the numbers from the ledger, from answers stored for replay and from the console's "
        "history; who did what, and what was paid, stays. Numbers have their country code, in any spelling. Nothing is "
        "erased unless all of them are valid. Safe while serving, and can be repeated. It does not reach: backups; "
        "logs (numbers are masked there); what vendors know; answers already sent; a search or an import under way, "
        "after which it can be repeated; notes, names and reasons that operators typed elsewhere. Without --block a "
        "later import may add a number again."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("numbers", nargs="+", metavar="NUMBER", help="Country code and number.")
        how = parser.add_mutually_exclusive_group()
        how.add_argument("--block", action="store_true", help="Make imports skip them from now on.")
        how.add_argument("--unblock", action="store_true", help="Let imports add them again; erase nothing.")

    def handle(self, *args: Any, **options: Any) -> None:
        read = list(dict.fromkeys(_read(options["numbers"])))
        masked = [numbers.mask(number) for number in read]
        result: dict[str, Any] = {"numbers": masked}
        shown = ", ".join(map(erasure.shown, read))
        # Like the log, the history has only country codes and last two digits.
        name = ", ".join(masked) if len(masked) <= MAX_NAMED else f"{len(masked)} numbers"
        action = history.Action.CHANGE if options["unblock"] else history.Action.DELETION
        if options["unblock"]:
            result["unblocked"] = suppression.unsuppress(read)
            message = f"Unblocked {result['unblocked']} of {len(read)} numbers: imports add them again."
        else:
            history.record(action=action, name=name, message=f"Began to erase the data of {name}.")
            result |= erasure.erase(read, block=options["block"])
            if not any(count for name, count in result.items() if name not in ("numbers", "overwritten")):
                self.stderr.write(f"Nothing was stored about {shown}. Is the country right?")
            if result["overwritten"] is False:
                self.stderr.write(
                    "Another process was reading the database: its file may still contain the deleted data. Run this "
                    "again later."
                )
            suppressed = suppression.SuppressedNumbers()
            result["blocked"] = sum(number in suppressed for number in read)
            message = (
                "Erased {0}. Deleted: contacts {contacts}, complaint days {complaint_days} (subjects {subjects}), "
                "rules {rules}. "
                "Cleared: imports {imports}, ledger entries {ledger_entries}, stored answers {stored_answers}, "
                "history entries {admin_entries}."
            ).format(shown, **result)
            message += "".join(f" {each.title}: {result[each.name]}." for each in NUMBERED)
            if result["blocked"]:
                message += f" Blocked: imports skip {result['blocked']} of {len(read)} numbers."
        history.record(action=action, name=name, message=message.replace(shown, name))
        self.write_result(options, result, message)


def _read(texts: list[str]) -> list[str]:
    """Raises CommandError, without the number."""
    read = []
    for position, text in enumerate(texts, start=1):
        try:
            read += erasure.spellings(text)
        except numbers.InvalidNumber as error:
            raise CommandError(f"argument {position}: invalid phone number ({error}). Nothing was changed.") from None
    return read
