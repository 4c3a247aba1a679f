import sys
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from django.core.management.base import CommandParser

from accounts import audit, unknown_charges
from accounts.models import UnknownCharge
from core.commands import JSONCommand, task_ended


class Command(JSONCommand):
    help = (
        "Check that every balance is the sum of its ledger entries, equals the newest entry's balance and is not "
        "negative, that each entry's balance is the previous one plus its amount, and that each transfer has an entry "
        "of both tokens. Counts the searches whose charge was unknown when they were answered with 500, which the "
        "service refunds. Safe while serving. It sorts the whole ledger: run it on a large one at quiet times, and "
        "more often with --since. Exits with status 1 and a list when something does not agree."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--since",
            type=_day,
            metavar="YYYY-MM-DD",
            help="check only the entries from this day (UTC) on, not the balances before them",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        since = options["since"]
        disagreements = audit.audit(since=since)
        unpaired = audit.unpaired_transfers(since=since)
        failed = bool(disagreements or unpaired)
        task_ended.send(Command, task=audit.TASK_SINCE if since else audit.TASK, succeeded=not failed)
        checked = f"ledger entries since {since:%Y-%m-%d}" if since else "ledger"
        text = "\n".join(map(_described, disagreements)) or f"Every balance agrees with its {checked}."
        result: dict[str, Any] = {"disagreements": [asdict(row) for row in disagreements]}
        if unpaired:
            result["unpaired_transfers"] = unpaired
            text += f"\nTransfers without their other entry: ledger entries {', '.join(map(str, unpaired))}."
        if outcomes := unknown_charges.count(since):
            result["unknown_charges"] = {each.name.lower(): outcomes.get(each, 0) for each in UnknownCharge.Outcome}
            text += "\nSearches answered with 500 while their charge was unknown: " + ", ".join(
                f"{outcomes.get(each, 0)} {each.value if each != UnknownCharge.Outcome.UNKNOWN else 'still unknown'}"
                for each in UnknownCharge.Outcome
            )
            text += "."
        self.write_result(options, result, text)
        if failed:
            sys.exit(1)


def _described(row: audit.Disagreement) -> str:
    facts = {
        "balance": row.credits,
        "sum of the ledger": row.ledger_sum,
        "balance of the newest ledger entry": row.newest_balance,
        "first ledger entry with a wrong balance": row.first_wrong_row,
    }
    known = ", ".join(f"{fact} {value}" for fact, value in facts.items() if value is not None)
    return f"Token {row.token_id} '{row.name}': {known}"


def _day(text: str) -> datetime:
    return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC)


_day.__name__ = "day (YYYY-MM-DD)"  # argparse: "invalid … value"
