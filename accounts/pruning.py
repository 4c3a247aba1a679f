"""Deleting what is past its age while searches are answered."""

from django.db.models import QuerySet


def delete_in_chunks(rows: QuerySet, size: int) -> int:
    """Delete `rows`, `size` of them at a time, so that nothing waits for long; how many."""
    keys, deleted = rows.values_list("pk", flat=True), 0
    while chunk := list(keys[:size]):
        deleted += rows.model._default_manager.filter(pk__in=chunk).delete()[0]
    return deleted
