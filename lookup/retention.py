"""Complaints that are past their age go. (Marks: lookup.marks; statistics: lookup.usage.)"""

from datetime import UTC, datetime, timedelta

from django.conf import settings

from accounts.pruning import delete_in_chunks
from lookup.models import ComplaintDay

PRUNE_ROWS = 1_000


def prune_complaints() -> int:
    """Delete the complaints that are COMPLAINT_KEPT_DAYS days old or older, today (UTC's) included; how many rows."""
    last_day = datetime.now(UTC).date() - timedelta(days=settings.COMPLAINT_KEPT_DAYS)
    return delete_in_chunks(ComplaintDay.objects.filter(day__lte=last_day), PRUNE_ROWS)
