"""Long lists of the console: rows with `created_at`, newest first, which a form filters, read a page at a time.

A table may have hundreds of millions of rows, and each statement must end within the statement timeout. So nothing is
counted, one of the filters is served by an index in order of time, and the others are applied to SCANNED rows of it at
a time.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from django import forms
from django.db.models import Q, QuerySet
from django.db.models.functions import Coalesce
from django.utils import timezone
from django.utils.functional import cached_property

from core import periods
from core.list_fields import MomentField, ZoneField, zone_named
from core.ranges import LAST, in_range

#: How many rows of an index are looked through for one page when there are further filters.
SCANNED = 20_000
#: The period that is listed unless the form has another one, or one of ListForm.specific.
PERIOD = periods.DAY
#: What a button for a period submits, beside the fields: its key, or CALENDAR for the month or quarter that is selected
#: in the field of this name.
CHOSEN_PERIOD, CALENDAR = "choose_period", "calendar"
#: The start of the period that is everything.
EVER = "2000-01-01"
PAGE_ROWS = 25
_ORDER = "-created_at", "-pk"


# --- Filters ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Filter:
    """What the field `name` of a form selects: rows whose `column` is `value`, or one of these values, and that fulfil
    `condition`.

    An index serves it: of `column` and `created_at`, or without a column of `created_at` alone, of the rows that fulfil
    `index_condition`. Without either, none does.

    `newest`: of some rows, those that have one of several values, at most so many, newest first. `choices`: what to
    enter instead, and the name, of each object that a text may mean, if it does not mean one; nothing is selected.
    `note`: what is selected, or the sentence above the choices; may be HTML. `warning`: what was not looked at.
    """

    name: str
    column: str = ""
    value: Any = None
    index_condition: Q = field(default_factory=Q)
    condition: Q = field(default_factory=Q)
    newest: Callable[[QuerySet, list[Any], int], QuerySet] | None = None
    choices: list[tuple[str, str]] | None = None
    note: str = ""
    warning: str = ""

    def apply(self, rows: QuerySet) -> QuerySet:
        """By no index of a column: PostgreSQL could choose that of a value whose rows are many and old."""
        if self.column:
            name = f"any_{self.column}"
            lookup = f"{name}__in" if isinstance(self.value, list) else name
            rows = rows.alias(**{name: Coalesce(self.column, self.column)}).filter(**{lookup: self.value})
        return rows.filter(self.index_condition, self.condition)


@dataclass(frozen=True, slots=True)
class Position:
    """A place in the order of rows, newest first: that of the row with this time and id."""

    created_at: datetime
    pk: int

    @classmethod
    def parse(cls, text: str) -> "Position | None":
        """Reverse `str`. None for any other text."""
        if not (match := re.fullmatch(r"([0-9]{1,17})-([0-9]{1,18})", text)):
            return None
        seconds, microsecond = divmod(int(match[1]), 1_000_000)
        return cls(datetime.fromtimestamp(seconds, UTC).replace(microsecond=microsecond), int(match[2]))

    def __str__(self) -> str:
        whole = int(self.created_at.replace(microsecond=0).timestamp())
        return f"{whole * 1_000_000 + self.created_at.microsecond}-{self.pk}"


@dataclass(frozen=True, slots=True)
class Page:
    """Rows, newest first. `older`: where the next page begins, if there may be one. `searched_to`: how far back rows
    were looked through, if the page is not full because of SCANNED."""

    rows: list[Any]
    older: Position | None = None
    searched_to: datetime | None = None


def first_row_at(rows: QuerySet) -> datetime:
    """The time of the oldest of `rows`; now without any."""
    return rows.order_by("created_at").values_list("created_at", flat=True).first() or timezone.now()


class ListForm(forms.Form):
    """The filters of a list, and the period that is listed, by default the last 24 hours, or the whole time if one of
    the fields `specific` is set: `page` reads what they select. Submitted by POST, and then part of the URL, where a
    day may stand for a moment. A `period` ends now, unless it is over, and is replaced by `since` and `until`, which
    are in `zone`, in which the list also shows its times."""

    zone = ZoneField()
    since = MomentField("From")
    until = MomentField("To")
    period = forms.CharField(required=False, widget=forms.HiddenInput)

    #: The first fields; the others are folded on phones, under `more`.
    main: tuple[str, ...]
    more: str
    #: Fields that select few rows, by an index of their own.
    specific: tuple[str, ...] = ()
    #: What the rows are, and a sentence for an empty list.
    noun: str
    empty_help = ""

    def first_row_at(self, rows: QuerySet) -> datetime:
        """The time of the oldest of all `rows`; now without any."""
        return first_row_at(rows)

    def __init__(self, data: Any) -> None:
        values = {name: str(data.get(name, "")).strip() for name in self.base_fields}
        for name, moment in (("since", "T00:00"), ("until", "T23:59")):
            if len(values[name]) == len("2000-01-01"):
                values[name] += moment
        self.is_specific = any(values[name] for name in self.specific)
        chosen = data.get(CHOSEN_PERIOD)
        if chosen := data.get(CALENDAR) if chosen == CALENDAR else chosen:
            values |= {"since": "", "until": "", "period": str(chosen)}
        if values["since"] or values["until"] or (values["period"] == PERIOD.key and not self.is_specific):
            values["period"] = ""
        self.chosen_period = periods.listed(values["period"])
        self.has_default_period = not (values["since"] or values["until"] or values["period"])
        self.tzinfo, self.zone_name = zone_named(values["zone"]) or UTC, values["zone"] or "UTC"
        super().__init__(values)
        for each in (self.fields["since"], self.fields["until"]):
            cast(MomentField, each).zone = self.tzinfo
            each.label = f"{each.label} ({self.zone_name})"
        if values["zone"]:
            cast(Any, self.fields["zone"].widget).choices += [(values["zone"], values["zone"])]
        self.order_fields([*self.main, *(name for name in self.fields if name not in ListForm.base_fields)])

    @classmethod
    def from_url(cls, query: Any) -> "ListForm":
        return cls(query)

    def url_parameters(self) -> dict[str, str]:
        """The values of a valid form for a URL."""
        return {name: self.data[name] for name in self.fields if self.data[name]}

    @property
    def main_fields(self) -> list[forms.BoundField]:
        return [self[name] for name in self.main]

    @property
    def more_fields(self) -> list[forms.BoundField]:
        return [field for field in self.visible_fields() if field.name not in self.main]

    @property
    def uses_more(self) -> bool:
        """Whether one of `more_fields` is set."""
        return any(self.data[field.name] for field in self.more_fields if field.name != "zone")

    def clean_period(self) -> str:
        if self.data["period"] and not self.chosen_period:
            raise forms.ValidationError("Select one of the periods.")
        return str(self.data["period"])

    def clean_until(self) -> datetime | None:
        """The end of the minute."""
        until: datetime | None = self.cleaned_data["until"]
        return until and until.replace(second=59, microsecond=999_999)

    def clean(self) -> dict[str, Any]:
        data = super().clean() or self.cleaned_data
        if data.get("since") and data.get("until") and data["since"] > data["until"]:
            self.add_error("until", "The end is before the start. Enter a later end, or an earlier start.")
        now = timezone.now()
        if self.chosen_period:
            data["since"] = self.chosen_period.exact_since(now)
            data["until"] = (
                self.chosen_period.until(now) - timedelta(microseconds=1) if self.chosen_period.is_over else None
            )
        elif not self.data["since"]:
            data["since"] = self._default_since(data.get("until") or now)
        return data

    def _default_since(self, until: datetime) -> datetime:
        ever = cast(datetime, self.fields["since"].clean(EVER))
        return ever if self.is_specific else PERIOD.exact_since(max(ever, until))

    # --- What the filters select ----------------------------------------------------------------------------------

    def selected(self, data: dict[str, Any]) -> Iterator[Filter]:
        """The filters that `data`, of a valid form, sets: the most selective first, whose index is used."""
        raise NotImplementedError

    @cached_property
    def filters(self) -> list[Filter]:
        return list(self.selected(self.cleaned_data)) if self.is_valid() else []

    @property
    def is_complete(self) -> bool:
        return self.is_valid() and all(each.choices is None for each in self.filters)

    @property
    def needs_choice(self) -> bool:
        return any(each.choices for each in self.filters)

    def page(self, rows: QuerySet, before: Position | None = None, size: int = PAGE_ROWS) -> Page:
        """The first `size` of `rows` that are selected, or those after `before`; none unless the form `is_complete`."""
        if not self.is_complete:
            return Page([])
        rows, scanned = self._ordered(rows, before, size + 1)
        floor = None
        if scanned:
            last = rows.values_list("created_at", "pk")[SCANNED - 1 : SCANNED].first()
            if last is not None:
                floor = Position(*last)
                rows = rows.filter(created_at__gte=floor.created_at)
                rows = rows.filter(Q(created_at__gt=floor.created_at) | Q(pk__gte=floor.pk))
            for each in scanned:
                rows = each.apply(rows)
        found = list(rows[: size + 1])
        if len(found) > size:
            return Page(found[:size], Position(found[size - 1].created_at, found[size - 1].id))
        return Page(found, floor, floor.created_at if floor else None)

    def _ordered(self, rows: QuerySet, before: Position | None, limit: int) -> tuple[QuerySet, list[Filter]]:
        """The rows that one filter selects, in the order of its index, and the filters to apply to SCANNED of them.

        The order is spelled out to leave PostgreSQL no choice. It assumes that a value's rows are evenly distributed,
        and for one whose rows are old it would otherwise read everything since.
        """
        first, last = self.cleaned_data["since"], self.cleaned_data["until"] or LAST
        if before is not None and before.created_at <= last:
            last = before.created_at
            rows = rows.filter(Q(created_at__lt=last) | Q(pk__lt=before.pk))
        leading = next((each for each in self.filters if each.column or each.index_condition), None)
        others = [each for each in self.filters if each is not leading]
        if leading and leading.newest:
            for each in others:
                rows = each.apply(rows)
            return leading.newest(rows.filter(created_at__gte=first, created_at__lte=last), leading.value, limit), []
        if leading:
            rows = rows.filter(leading.index_condition)
            others += [leading] if leading.condition else []
        if not (leading and leading.column):
            return rows.filter(created_at__gte=first, created_at__lte=last).order_by(*_ORDER), others
        rows = in_range(rows, leading.column, leading.value, first, last)
        return rows.order_by(f"-{leading.column}", *_ORDER), others
