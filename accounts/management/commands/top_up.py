from argparse import ArgumentParser
from typing import Any

from django.core.management.base import CommandError
from django.db import transaction

from accounts import credits, history
from accounts.management.commands._output import TokenCommand, as_json
from accounts.models import ApiToken


class Command(TokenCommand):
    help = "Add credits to a token, with a ledger row. A revoked token takes none."

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("id", type=int)
        parser.add_argument("amount", type=int, help="how many credits, 1 or more")
        parser.add_argument("--note", required=True, help="why; it stands in the ledger")
        parser.add_argument(
            "--reference",
            default="",
            help="your own reference, such as an invoice's: the same again is the same top-up and adds nothing",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        token = self.token(options["id"])
        reference = options["reference"].strip()
        try:
            with transaction.atomic():
                # Locked, so that of two with one reference at once the second one sees the first one's row.
                ApiToken.objects.select_for_update().get(pk=token.pk)
                repeated = reference != "" and token.entries.filter(reference=reference).exists()
                entry = credits.top_up(
                    token=token,
                    amount=options["amount"],
                    actor=history.command_actor(),
                    reason=options["note"],
                    reference=reference,
                )
                if not repeated:
                    history.record_command(
                        action=history.Action.CHANGE,
                        target=token,
                        message=f"Booked: top-up of {entry.amount:+d} credits, ledger row {entry.pk}, balance "
                        f"{entry.balance_after}. {entry.reason}",
                    )
        except ValueError as error:
            raise CommandError(str(error)) from error
        token.refresh_from_db()
        if options["json"]:
            self.result(as_json(token))
        else:
            self.stdout.write(
                f"Token {token.pk} '{token.name}' has {token.credits} credits (ledger row {entry.pk}: "
                f"{entry.amount:+d})."
            )
