"""How lists are sorted: rows without a value last, and in which direction by the first click on a heading."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from django.contrib.admin.views.main import ORDER_VAR, ChangeList
from django.core.exceptions import FieldDoesNotExist
from django.db.models import CharField, TextField

Item = TypeVar("Item")


def none_last(items: Iterable[Item], value: Callable[[Item], Any], *, reverse: bool) -> list[Item]:
    """Sorted by `value`; in both directions those whose value is None are last."""
    known: list[Item] = []
    unknown: list[Item] = []
    for item in items:
        (unknown if value(item) is None else known).append(item)
    return sorted(known, key=value, reverse=reverse) + unknown


class DescendingFirstChangeList(ChangeList):
    """The first click on a heading sorts texts and the columns in `ascending_first` in ascending order, and other
    figures and dates in descending order."""

    #: Columns whose least value, such as the earliest end, is wanted first.
    ascending_first: tuple[str, ...] = ()

    def get_query_string(self, new_params: Any = None, remove: Any = None) -> str:
        """As Django's. Headings pass the columns to sort by: if the first of them is not sorted by yet, it is sorted in
        descending order unless `_is_ascending`."""
        order = (new_params or {}).get(ORDER_VAR, "")
        clicked = order.partition(".")[0]
        if clicked.isdecimal() and int(clicked) not in self.get_ordering_field_columns():
            new_params = {**new_params, ORDER_VAR: order if self._is_ascending(int(clicked)) else f"-{order}"}
        return super().get_query_string(new_params, remove)

    def _is_ascending(self, column: int) -> bool:
        if self.list_display[column] in self.ascending_first:
            return True
        try:
            field = self.lookup_opts.get_field(str(self.get_ordering_field(self.list_display[column])))
        except FieldDoesNotExist:  # a figure that is computed
            return False
        return isinstance(field, CharField | TextField)
