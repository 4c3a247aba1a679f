"""Deleting what is past its age while searches are answered."""

from django.db import transaction
from django.db.models import QuerySet

from accounts.turns import let_others_write

#: How long statistics and settled notices are kept: more than a year, to compare with the last.
KEPT_DAYS = 400


def delete_in_chunks(rows: QuerySet, size: int) -> int:
    """Delete `rows`, `size` of them at a time; how many. Two at once share the work."""
    deleted = 0
    while True:
        with transaction.atomic():
            # Locked, so that none is deleted that has become younger meanwhile; and what another has locked is its.
            chunk = list(rows.select_for_update(skip_locked=True).values_list("pk", flat=True)[:size])
            deleted += rows.model._default_manager.filter(pk__in=chunk).delete()[0]
        if not chunk:
            return deleted
        let_others_write()
