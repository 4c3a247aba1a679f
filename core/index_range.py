"""Filters by one value of a column and a range of `created_at`, so that PostgreSQL uses the index of both columns.

For a value that its statistics call common, it would otherwise scan the table, or the index of `created_at` alone,
until it has found a page of rows: all newer rows, if those of the value are old. Order the rows by `-column,
-created_at, -pk`.
"""

from datetime import datetime

from django.db.models import DateTimeField, Field, Func, QuerySet, Value
from django.db.models.lookups import GreaterThanOrEqual, LessThanOrEqual


def in_range(rows: QuerySet, name: str, value: Value, first: datetime, last: datetime) -> QuerySet:
    """Rows whose column `name` is `value`, and whose `created_at` is from `first` to `last`."""
    pair = _Row(name, "created_at")
    return rows.filter(
        GreaterThanOrEqual(pair, _Row(value, Value(first, DateTimeField()))),
        LessThanOrEqual(pair, _Row(value, Value(last, DateTimeField()))),
    )


class _Row(Func):
    """SQL's `(a, b)`, which compares in the order of an index of both columns."""

    template = "(%(expressions)s)"
    output_field = Field()
