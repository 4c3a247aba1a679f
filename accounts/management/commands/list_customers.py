from typing import Any

from django.utils import timezone

from accounts import customer_figures
from accounts.management.commands._output import customer_as_json
from accounts.models import Customer
from core.commands import JSONCommand


class Command(JSONCommand):
    help = "List all customers with their number of tokens and the balance of their usable tokens."

    def handle(self, *args: Any, **options: Any) -> None:
        all_customers = Customer.objects.prefetch_related("contacts")
        figures = customer_figures.by_customer(timezone.now(), names=("token_count", "balance"))
        rows = [
            {
                **customer_as_json(customer),
                "tokens": figures[customer.pk].token_count,
                "credits": figures[customer.pk].balance,
            }
            for customer in all_customers.order_by("pk").iterator(chunk_size=1_000)
        ]
        lines = [f"{'ID':>6}  {'TOKENS':>6}  {'CREDITS':>10}  NAME"]
        lines += [f"{row['id']:>6}  {row['tokens']:>6}  {row['credits']:>10}  {row['name']}" for row in rows]
        self.write_result(options, rows, "\n".join(lines))
