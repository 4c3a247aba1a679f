from typing import Any

from django.core.management.base import CommandParser

from accounts import credits
from accounts.management.commands._output import as_json, change, find_token
from core import history
from core.amounts import whole_number
from core.commands import JSONCommand


class Command(JSONCommand):
    help = (
        "Move credits from an API token, which may be revoked, to another one of the same customer, by two ledger "
        "entries. Refused for revoked targets and for test tokens."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("from_id", type=whole_number)
        parser.add_argument("to_id", type=whole_number)
        parser.add_argument("amount", type=whole_number, help="how many credits, 1 or more")
        parser.add_argument("--note", required=True, help="the reason, shown in the ledger of both tokens")
        parser.add_argument("--reference", default="", help="your own reference; repeating it moves nothing")

    def handle(self, *args: Any, **options: Any) -> None:
        source, target = find_token(options["from_id"]), find_token(options["to_id"])
        with change():
            moved = credits.transfer(
                from_token=source,
                to_token=target,
                amount=options["amount"],
                actor=history.command_actor(),
                reason=options["note"],
                reference=options["reference"],
            )
            if moved.is_new:
                for token, message in zip((source, target), moved.messages(), strict=True):
                    history.record(action=history.Action.CHANGE, target=token, message=message)
        source.refresh_from_db()
        target.refresh_from_db()
        text = (
            f"Token {source.pk} '{source.name}' has {source.credits} credits, token {target.pk} '{target.name}' has "
            f"{target.credits} (ledger entries {moved.taken.pk} and {moved.given.pk}: {moved.given.amount:+d})."
        )
        self.write_result(options, {"from": as_json(source), "to": as_json(target)}, text)
