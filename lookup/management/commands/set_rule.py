"""Make, change or remove a rule."""

import json
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import transaction

from accounts import history
from lookup import numbers, rules
from lookup.models import NumberRule

_SPAM = {"yes": True, "no": False, "unknown": None}
_WORDS = {value: word for word, value in _SPAM.items()}


class Command(BaseCommand):
    help = (
        "Make or change the rule for a number: your own word, above every source and every import. What is not given "
        "stays as it is. A rule says spam or not, a name, or both. The number has its country code and may have a +, "
        "spaces, hyphens, dots and parentheses."
    )
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("number", metavar="NUMBER", help="Country code and number.")
        parser.add_argument("--spam", choices=list(_SPAM), help="unknown leaves it to the sources.")
        parser.add_argument("--name", help="Who it is; '' leaves it to the sources.")
        parser.add_argument("--note", help="For operators; never in an answer.")
        parser.add_argument("--remove", action="store_true", help="Remove the rule; the sources answer again.")
        parser.add_argument("--json", action="store_true", help="The rule as one JSON object on stdout.")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            number = numbers.read(options["number"])
        except numbers.InvalidNumber as error:
            raise CommandError(f"Invalid phone number ({error}).") from None
        given: rules.Word = {}
        if options["spam"] is not None:
            given["spam"] = _SPAM[options["spam"]]
        if options["name"] is not None:
            given["name"] = options["name"]
        if options["note"] is not None:
            given["note"] = options["note"]
        if bool(given) == options["remove"]:
            raise CommandError("Give --spam, --name or --note to set the rule, or --remove alone.")
        if options["remove"]:
            with transaction.atomic():
                if removed := rules.remove(number):
                    _record(number, history.Action.DELETION, "Removed.")
            self._show_removed(number, removed, options["json"])
            return
        try:
            with transaction.atomic():
                rule = rules.set_rule(number, **given)
                _record(number, history.Action.CHANGE, f"Set: {', '.join(given)}.")
        except rules.SaysNothing:
            raise CommandError("A rule needs --spam yes, --spam no, or a --name. Nothing was changed.") from None
        if options["json"]:
            shown = {"number": number, "spam": rule.spam, "name": rule.name, "note": rule.note}
            self.stdout.write(json.dumps(shown, ensure_ascii=False))
            return
        note = f"; {rule.note}" if rule.note else ""
        country = numbers.region(number) or "no country"
        name = f"name {rule.name}" if rule.name else "no name"
        self.stdout.write(f"{number} ({country}): spam {_WORDS[rule.spam]}, {name}{note}")

    def _show_removed(self, number: str, removed: bool, as_json: bool) -> None:
        if as_json:
            self.stdout.write(json.dumps({"number": number, "removed": removed}))
        else:
            self.stdout.write(f"{'Removed the' if removed else 'There was no'} rule for {number}.")


def _record(number: str, action: history.Action, message: str) -> None:
    """With the number masked, and which fields were set, not to what: the history outlives a `forget`."""
    history.record_command(action=action, kind=NumberRule, name=numbers.mask(number), message=message)
