from typing import Any

from django.core.management.base import CommandParser

from accounts import customers
from accounts.management.commands._output import change, customer_as_json
from core import history
from core.commands import JSONCommand


class Command(JSONCommand):
    help = "Create a customer, who can own several API tokens. Prints the customer's id."

    def add_arguments(self, parser: CommandParser) -> None:
        super().add_arguments(parser)
        parser.add_argument("name", help="the person or company")
        parser.add_argument("--note", default="", help="for operators")
        parser.add_argument(
            "--contact",
            action="append",
            default=[],
            help="e-mail address for low-balance notices of all the customer's tokens; may be repeated",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        with change():
            customer = customers.create(name=options["name"], note=options["note"], contacts=options["contact"])
            history.record(action=history.Action.ADDITION, target=customer, message="Created.")
        self.write_result(options, customer_as_json(customer), f"Customer {customer.pk} '{customer.name}' is created.")
