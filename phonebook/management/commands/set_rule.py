from argparse import BooleanOptionalAction
from typing import Any

from django.core.management.base import CommandError, CommandParser
from django.db import transaction

from core import history, numbers
from core.commands import JSONCommand
from phonebook import rules
from phonebook.models import NumberRule

_SPAM = {"yes": True, "no": False, "unknown": None}
_WORDS = {value: word for word, value in _SPAM.items()}


class Command(JSONCommand):
    help = (
        "Add or change the rule for a number or a prefix. Rules override all sources and imports; the longest rule for "
        "a number overrides the others. Fields that are not given stay unchanged. A rule needs spam yes or no, a name, "
        "or both. The number has its country code and may have a +, spaces, hyphens, dots and parentheses."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("number", metavar="NUMBER", help="Country code and number.")
        parser.add_argument(
            "--prefix",
            dest="is_prefix",
            action=BooleanOptionalAction,
            default=None,
            help="Also for every longer number that begins with NUMBER, which may then have 1 to 15 digits.",
        )
        parser.add_argument("--spam", choices=list(_SPAM), help="unknown leaves it to the sources.")
        parser.add_argument("--name", help="Caller's name; '' leaves it to the sources.")
        parser.add_argument("--note", help="For operators; never part of an answer.")
        parser.add_argument("--remove", action="store_true", help="Remove the rule; the sources answer again.")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            number = numbers.parse_prefix(options["number"])
        except numbers.InvalidNumber as error:
            raise CommandError(f"Invalid phone number ({error}).") from None
        given = {field: options[field] for field in ("is_prefix", "spam", "name", "note") if options[field] is not None}
        if "spam" in given:
            given["spam"] = _SPAM[given["spam"]]
        if bool(given) == options["remove"]:
            raise CommandError("Give --spam, --name, --note or --prefix to set the rule, or --remove alone.")
        result, message = self._remove(number) if options["remove"] else self._set(number, given)
        self.write_result(options, result, message)

    def _remove(self, number: str) -> tuple[dict[str, Any], str]:
        with transaction.atomic():
            if removed := rules.remove(number):
                _record(number, history.Action.DELETION, "Removed.")
        message = f"{'Removed the' if removed else 'There was no'} rule for {number}."
        return {"number": number, "removed": removed}, message

    def _set(self, number: str, given: dict[str, Any]) -> tuple[dict[str, Any], str]:
        try:
            with transaction.atomic():
                rule = rules.set_rule(number, **given)
                _record(number, history.Action.CHANGE, f"Set: {', '.join(given).replace('is_prefix', 'prefix')}.")
        except rules.TooShort:
            raise CommandError(
                "A number has 7 to 15 digits; for a prefix, add --prefix. Nothing was changed."
            ) from None
        except rules.EmptyRule:
            raise CommandError("A rule needs --spam yes, --spam no, or a --name. Nothing was changed.") from None
        what = "prefix" if rule.is_prefix else numbers.region(number) or "no country"
        name = f"name {rule.name}" if rule.name else "no name"
        note = f"; {rule.note}" if rule.note else ""
        message = f"{rule} ({what}): spam {_WORDS[rule.spam]}, {name}{note}"
        values = {"prefix": rule.is_prefix, "spam": rule.spam, "name": rule.name, "note": rule.note}
        return {"number": number, **values}, message


def _record(number: str, action: history.Action, message: str) -> None:
    """Record the change with the number masked and without the values: the history outlives an erasure."""
    name = number if len(number) < numbers.MIN_DIGITS else numbers.mask(number)
    history.record(action=action, model=NumberRule, name=name, message=message)
