"""Conditions that leave PostgreSQL no choice but the index of two columns: one value of the first, a range of time.

For a value that it believes to be common, it would otherwise scan the table, or the index of time alone, until it has
found a page of rows: if the value's rows are old, through all newer ones. Order the rows by `-column, -created_at,
-pk`.
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
