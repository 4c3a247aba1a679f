import sys
from argparse import ArgumentParser
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from accounts import audit
from accounts.management.commands._output import TokenCommand


class Command(TokenCommand):
    help = (
        "Prove that every balance is the sum of its ledger rows, is what the newest of them says, and is not negative, "
        "and that each row's balance is the one before it plus its amount. Safe while serving; it sorts the whole "
        "ledger, so run it on a large one when there is little to do, and more often with --since. Exit status 1, with "
        "a list, when something does not agree."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--since",
            type=_day,
            metavar="YYYY-MM-DD",
            help="check only the rows from this day (UTC) on, and take the balances before them as given",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        since = options["since"]
        disagreements = audit.audit(since=since)
        if options["json"]:
            self.result({"disagreements": [asdict(row) for row in disagreements]})
        elif not disagreements:
            checked = f"Every balance agrees with its ledger rows since {since:%Y-%m-%d}." if since else ""
            self.stdout.write(checked or "Every balance agrees with its ledger.")
        for row in disagreements if not options["json"] else []:
            said = f"Token {row.token_id} '{row.name}': balance {row.credits}"
            if row.ledger_sum is not None:
                said += f", sum of its ledger {row.ledger_sum}"
            if row.newest_balance is not None:
                said += f", balance in its newest ledger row {row.newest_balance}"
            if row.first_wrong_row is not None:
                said += f", first ledger row with a wrong balance {row.first_wrong_row}"
            self.stdout.write(said)
        if disagreements:
            sys.exit(1)


def _day(text: str) -> datetime:
    return datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC)


_day.__name__ = "day (YYYY-MM-DD)"  # argparse: "invalid … value"
