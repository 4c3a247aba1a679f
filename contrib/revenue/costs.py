"""What the calls of each customer's searches cost."""

from datetime import datetime
from decimal import Decimal

from django.db.models import Sum

from lookup.search import SLOTS, bound_sources
from monitoring.models import TokenSourceDay
from monitoring.source_report import SourceRow, no_cost
from monitoring.source_statistics import SourceUsage


def cost_by_customer(since: datetime, until: datetime) -> dict[int | None, Decimal]:
    """The cost of the calls that searches made on the days from `since` to before `until`, by key of the customer whose
    token it was; None: of tokens without a customer. Without calls that have no price. One statement."""
    days = TokenSourceDay.objects.filter(day__gte=since.date(), day__lt=until.date())
    called = days.values_list("token__customer", "slot", "connector").annotate(Sum("calls")).order_by()
    configured = {(slot, bound.name): bound for slot in SLOTS for bound in bound_sources(slot)}
    costs: dict[int | None, Decimal] = {}
    for customer_id, slot, name, calls in called:
        source = SourceRow(slot, name, SourceUsage(billable=calls), configured.get((slot, name)))
        costs[customer_id] = costs.get(customer_id, no_cost()) + (source.cost or 0)
    return costs
