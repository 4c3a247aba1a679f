import sys
from dataclasses import asdict
from typing import Any

from accounts import credits
from accounts.management.commands._output import TokenCommand


class Command(TokenCommand):
    help = (
        "Prove that every balance is the sum of its ledger rows and not negative. Safe while serving. Exit status 1, "
        "with a list, when one is not."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        disagreements = credits.audit()
        if options["json"]:
            self.result({"disagreements": [asdict(row) for row in disagreements]})
        elif not disagreements:
            self.stdout.write("Every balance agrees with its ledger.")
        for row in disagreements if not options["json"] else []:
            self.stdout.write(
                f"Token {row.token_id} '{row.name}': balance {row.credits}, sum of its ledger {row.ledger_sum}"
            )
        if disagreements:
            sys.exit(1)
