"""What the request log knows of charges: the request of a ledger entry, and repeated charges of one number."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db.models import DateTimeField, ExpressionWrapper, OuterRef, Subquery, Value
from django.utils import timezone

from accounts.models import CreditEntry
from contrib.request_log.models import RequestLogEntry

#: The answer is logged after the ledger entry is written.
MAX_WRITE_DELAY = timedelta(minutes=1)
#: Another charge of the same number by the same token within this time is called repeated.
REPEATED_WITHIN = timedelta(minutes=1)


def _after(name: str, delay: timedelta) -> Any:
    """The time in the outer row's column `name`, and `delay` later."""
    return ExpressionWrapper(OuterRef(name) + Value(delay), DateTimeField())


def requests_of(entries: Sequence[CreditEntry]) -> dict[int, RequestLogEntry]:
    """The logged request of each ledger entry that still has one, by the entry's id. Two statements, each of which
    looks up every entry in the index of request ids: clients may send the same id with every search."""
    oldest = timezone.now() - timedelta(days=settings.REQUEST_LOG_DAYS + 1)
    ids = [each.pk for each in entries if each.kind == CreditEntry.Kind.SEARCH and each.created_at > oldest]
    if not ids:
        return {}
    logged = RequestLogEntry.objects.filter(
        request_id=OuterRef("request_id"),
        created_at__gte=OuterRef("created_at"),
        created_at__lte=_after("created_at", MAX_WRITE_DELAY),
        entry_id=OuterRef("pk"),
    ).order_by("request_id", "created_at")
    found = CreditEntry.objects.filter(pk__in=ids).annotate(logged_id=Subquery(logged.values("pk")[:1]))
    rows = RequestLogEntry.objects.in_bulk([each for each in found.values_list("logged_id", flat=True) if each])
    return {row.entry_id: row for row in rows.values() if row.entry_id}


def repeated(rows: Sequence[RequestLogEntry]) -> dict[int, int]:
    """Of those that were charged although the same token was charged for the same number within REPEATED_WITHIN before:
    the id of that request, the last one before, by the id of the row. One statement, which looks up every row in the
    index of numbers."""
    ids = [row.pk for row in rows if row.charged and row.number_hash is not None]
    if not ids:
        return {}
    earlier = RequestLogEntry.objects.filter(
        number_hash=OuterRef("number_hash"),
        created_at__gte=_after("created_at", -REPEATED_WITHIN),
        created_at__lt=OuterRef("created_at"),
        token_id=OuterRef("token_id"),
        charged=True,
    ).order_by("number_hash", "-created_at")
    # As a value, not a condition: PostgreSQL could make a join of EXISTS, and read the whole table.
    found = RequestLogEntry.objects.filter(pk__in=ids).annotate(earlier_id=Subquery(earlier.values("pk")[:1]))
    return {pk: earlier_id for pk, earlier_id in found.values_list("pk", "earlier_id") if earlier_id}


def refunds(entry_ids: Sequence[int]) -> dict[int | None, CreditEntry]:
    """Of these ledger entries, by their ids, the refunds."""
    return {refund.refunds_id: refund for refund in CreditEntry.objects.filter(refunds_id__in=entry_ids)}
