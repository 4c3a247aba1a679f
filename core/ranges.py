"""Ranges of rows in the order of an index of two columns."""

from datetime import UTC, datetime
from typing import Any

from django.db.models import DateTimeField, Field, Func, OuterRef, QuerySet, Value
from django.db.models.lookups import GreaterThanOrEqual, LessThanOrEqual

FIRST, LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


def in_range(rows: QuerySet, name: str, value: Any, first: datetime, last: datetime) -> QuerySet:
    """Rows whose column `name` is `value`, which may be an OuterRef, and whose `created_at` is from `first` to `last`,
    by the index of both.

    For a value that its statistics call common, PostgreSQL would otherwise scan the table, or the index of `created_at`
    alone, until it has found a page of rows. Order the rows by `-column, -created_at, -pk`.
    """
    pair = _Row(name, "created_at")
    typed = value if isinstance(value, OuterRef) else Value(value, rows.model._meta.get_field(name))
    return rows.filter(
        GreaterThanOrEqual(pair, _Row(typed, Value(first, DateTimeField()))),
        LessThanOrEqual(pair, _Row(typed, Value(last, DateTimeField()))),
    )


class _Row(Func):
    """SQL's `(a, b)`, which compares in the order of an index of both columns."""

    template = "(%(expressions)s)"
    output_field = Field()
