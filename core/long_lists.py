"""Long lists of the console: rows with `created_at`, newest first, which a form filters, read a page at a time.

A table may have hundreds of millions of rows, and each statement must end within the statement timeout. So nothing is
counted, one of the filters is served by an index in order of time, and the others are applied to SCANNED rows of it at
a time.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from django import forms
from django.contrib.admin.views.main import ChangeList
from django.core.exceptions import ValidationError
from django.core.paginator import Paginator
from django.db.models import DateTimeField, Field, Func, Model, Q, QuerySet, Value
from django.db.models.functions import Coalesce
from django.db.models.lookups import GreaterThanOrEqual, LessThanOrEqual
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone
from django.utils.functional import cached_property
from django.utils.http import urlencode
from unfold.widgets import UnfoldAdminSelectWidget, UnfoldAdminTextInputWidget

from core.admin import LargeTableAdmin, ReadOnlyAdmin, require

#: How many rows of an index are looked through for one page when there are further filters.
SCANNED = 20_000
#: The period that is listed unless the form has another one.
PERIOD = timedelta(hours=24)
#: As the start of the period in a link: everything.
EVER = "2000-01-01"
BEFORE_VAR = "before"
_FIRST, _LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


# --- Forms -----------------------------------------------------------------------------------------------------------


class MomentField(forms.DateTimeField):
    """A minute or second in UTC, as browsers send it. `is_end`: its last microsecond."""

    _LENGTHS = {"%Y-%m-%dT%H:%M": timedelta(minutes=1), "%Y-%m-%dT%H:%M:%S": timedelta(seconds=1)}

    def __init__(self, label: str, *, is_end: bool = False) -> None:
        widget = UnfoldAdminTextInputWidget(attrs={"type": "datetime-local"})
        super().__init__(label=label, required=False, widget=widget)
        self.is_end = is_end

    def to_python(self, value: Any) -> datetime | None:
        for pattern, length in self._LENGTHS.items() if value else ():
            try:
                moment = datetime.strptime(value, pattern).replace(tzinfo=UTC)
            except ValueError:
                continue
            return moment + (length - timedelta(microseconds=1)) if self.is_end else moment
        if value:
            raise ValidationError("Enter a time as YYYY-MM-DDTHH:MM.")
        return None


def text_field(label: str, placeholder: str, max_length: int, **attrs: str) -> forms.CharField:
    widget = UnfoldAdminTextInputWidget(attrs={"placeholder": placeholder, "autocomplete": "off", **attrs})
    return forms.CharField(label=label, required=False, max_length=max_length, widget=widget)


def choice_field(label: str, choices: Any) -> forms.ChoiceField:
    """`choices`: as a ChoiceField's, or a function that returns a list."""
    return forms.ChoiceField(
        label=label,
        required=False,
        choices=lambda: [("", "All"), *(choices() if callable(choices) else choices)],
        widget=UnfoldAdminSelectWidget,
        error_messages={"invalid_choice": "Select a value from the list."},
    )


class ListForm(forms.Form):
    """The filters, and the period that is listed, by default the last 24 hours. Submitted by POST, and then part of
    the URL, where a day may stand for a moment."""

    since = MomentField("From (UTC)")
    until = MomentField("To (UTC)", is_end=True)

    #: The first fields; the others are folded on phones, under `more`.
    main: tuple[str, ...]
    more: str

    def __init__(self, data: Any) -> None:
        values = {name: str(data.get(name, "")).strip() for name in self.base_fields}
        for name, moment in (("since", "T00:00"), ("until", "T23:59")):
            if len(values[name]) == len("2000-01-01"):
                values[name] += moment
        self.has_default_period = not (values["since"] or values["until"])
        if not values["since"]:
            try:
                end = self.base_fields["until"].clean(values["until"]) or timezone.now()
            except ValidationError:
                end = timezone.now()
            since = end - min(PERIOD, end - _FIRST)
            values["since"] = since.replace(tzinfo=None).isoformat(timespec="minutes")
        super().__init__(values)
        self.order_fields([*self.main, *(name for name in self.fields if name not in ("since", "until"))])

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
        names = [field.name for field in self.more_fields if field.name not in ("since", "until")]
        return not self.has_default_period or any(self.data[name] for name in names)

    def clean(self) -> dict[str, Any]:
        data = super().clean() or self.cleaned_data
        if data.get("since") and data.get("until") and data["since"] > data["until"]:
            self.add_error("until", "The end is before the start.")
        return data


# --- What a list is --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Match:
    """What a filter selects: rows with `value` in the column of its index, or one of these values; and `condition`.

    `is_indexed`: whether the index serves it. `is_common`: whether almost every row fulfils it, so that a page is soon
    full. `newest`: orders rows with one of several values, at most so many, newest first. `choices`: what to enter
    instead, and the name, of each object that a text may mean, if it does not mean one; nothing is selected. `note`:
    what is selected, or the sentence above the choices; may be HTML. `warning`: what was not looked at.
    """

    value: Any = None
    condition: Q | None = None
    is_indexed: bool = True
    is_common: bool = False
    newest: Callable[[QuerySet, int], QuerySet] | None = None
    choices: list[tuple[str, str]] | None = None
    note: str = ""
    warning: str = ""


@dataclass(frozen=True, slots=True)
class Filter:
    """A filter of a list. `name`: of its field in the form. `match`: what the form's cleaned data selects, or None.
    `index`: the name of its index, of a column and `created_at`, or of `created_at` alone with a condition."""

    name: str
    index: str
    match: Callable[[dict[str, Any]], Match | None]


def exactly(name: str) -> Callable[[dict[str, Any]], Match | None]:
    """The `match` of a filter by the value of one field."""
    return lambda data: Match(data[name]) if data[name] else None


@dataclass(frozen=True, slots=True)
class LongList:
    """`filters`: the most selective first, whose index is used. `noun`: what the rows are."""

    model: type[Model]
    form: type[ListForm]
    filters: tuple[Filter, ...]
    noun: str
    page_rows: int = 50
    empty_help: str = ""

    def select(self, values: Any) -> "Selection":
        """What these values of the form's fields select."""
        return Selection(self, self.form(values))

    def index(self, name: str) -> tuple[str, Q]:
        """The column (empty: `created_at` alone) and the condition of the index of this name."""
        index = next(index for index in self.model._meta.indexes if index.name == name)
        *columns, _created_at = index.fields
        return cast(Field, self.model._meta.get_field(columns[0])).attname if columns else "", index.condition or Q()

    def has_index(self, column: str, condition: Q) -> bool:
        return any((column, condition) == self.index(index.name) for index in self.model._meta.indexes)


# --- Reading ---------------------------------------------------------------------------------------------------------


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


class Selection:
    """The rows that `form` selects; none if it is invalid or a text does not mean one object."""

    def __init__(self, long_list: LongList, form: ListForm) -> None:
        self.list, self.form = long_list, form
        found = [(each, each.match(form.cleaned_data)) for each in long_list.filters] if form.is_valid() else []
        self.matches = [(each, match) for each, match in found if match]

    @property
    def is_complete(self) -> bool:
        return self.form.is_valid() and all(match.choices is None for _, match in self.matches)

    @property
    def needs_choice(self) -> bool:
        return any(match.choices for _, match in self.matches)

    def page(self, rows: QuerySet, before: Position | None = None, size: int | None = None) -> Page:
        """The first `size` of `rows` that are selected, or those after `before`."""
        if not self.is_complete:
            return Page([])
        size = size or self.list.page_rows
        rows, scanned = self._ordered(rows, before, size + 1)
        floor = None
        if scanned:
            last = rows.values_list("created_at", "pk")[SCANNED - 1 : SCANNED].first()
            if last is not None:
                floor = Position(*last)
                rows = rows.filter(created_at__gte=floor.created_at)
                rows = rows.filter(Q(created_at__gt=floor.created_at) | Q(pk__gte=floor.pk))
            for other, match in scanned:
                rows = self._filtered(rows, other, match)
        found = list(rows[: size + 1])
        if len(found) > size:
            return Page(found[:size], Position(found[size - 1].created_at, found[size - 1].id))
        return Page(found, floor, floor.created_at if floor else None)

    def _ordered(
        self, rows: QuerySet, before: Position | None, limit: int
    ) -> tuple[QuerySet, list[tuple[Filter, Match]]]:
        """The rows that one filter selects, in the order of its index, and the filters to apply to SCANNED of them.

        The order is spelled out to leave PostgreSQL no choice. It assumes that a value's rows are evenly distributed,
        and for one whose rows are old it would otherwise read everything since.
        """
        first, last = self.form.cleaned_data["since"], self.form.cleaned_data["until"] or _LAST
        if before is not None and before.created_at <= last:
            last = before.created_at
            rows = rows.filter(Q(created_at__lt=last) | Q(pk__lt=before.pk))
        others = list(self.matches)
        leading = next((each for each in others if each[1].is_indexed), None)
        if leading is not None:
            others.remove(leading)
        for each in [each for each in others if each[1].is_common or (leading and leading[1].newest)]:
            others.remove(each)
            rows = self._filtered(rows, *each)
        if leading is not None and leading[1].newest:
            return leading[1].newest(rows.filter(created_at__gte=first, created_at__lte=last), limit), []
        column, condition = self.list.index(leading[0].index) if leading else ("", Q())
        rows = rows.filter(condition)
        if leading is None or not column:
            others += [leading] if leading and leading[1].condition else []
            return rows.filter(created_at__gte=first, created_at__lte=last).order_by("-created_at", "-pk"), others
        for other, _match in others:
            of_other, condition = self.list.index(other.index)
            if not of_other and self.list.has_index(column, condition):
                # Of few rows, so that no choice of index is slow.
                rows = rows.filter(condition, created_at__gte=first, created_at__lte=last, **{column: leading[1].value})
                return rows.order_by("-created_at", "-pk"), others
        rows = in_range(rows, column, leading[1].value, first, last)
        return rows.order_by(f"-{column}", "-created_at", "-pk"), others

    def _filtered(self, rows: QuerySet, each: Filter, match: Match) -> QuerySet:
        """By no index of a column: PostgreSQL could choose that of a value whose rows are many and old."""
        column, condition = self.list.index(each.index)
        if match.is_indexed:
            rows = rows.filter(condition)
        if match.value is not None:
            name = f"any_{column}{'__in' if isinstance(match.value, list) else ''}"
            rows = rows.alias(**{f"any_{column}": Coalesce(column, column)}).filter(**{name: match.value})
        return rows.filter(match.condition) if match.condition else rows


def in_range(rows: QuerySet, name: str, value: Any, first: datetime, last: datetime) -> QuerySet:
    """Rows whose column `name` is `value`, and whose `created_at` is from `first` to `last`, by the index of both.

    For a value that its statistics call common, PostgreSQL would otherwise scan the table, or the index of `created_at`
    alone, until it has found a page of rows. Order the rows by `-column, -created_at, -pk`.
    """
    pair = _Row(name, "created_at")
    typed = Value(value, rows.model._meta.get_field(name))
    return rows.filter(
        GreaterThanOrEqual(pair, _Row(typed, Value(first, DateTimeField()))),
        LessThanOrEqual(pair, _Row(typed, Value(last, DateTimeField()))),
    )


class _Row(Func):
    """SQL's `(a, b)`, which compares in the order of an index of both columns."""

    template = "(%(expressions)s)"
    output_field = Field()


# --- The console's page ----------------------------------------------------------------------------------------------


class KeysetPaginator(Paginator):
    """One page: the next one begins after the last row of this one. Nothing is counted."""

    template_name = "admin/long_list_pages.html"

    @cached_property
    def count(self) -> int:
        return len(self.object_list)


class LongChangeList(ChangeList):
    """Lists what a Selection selects; its form's fields are the only filters."""

    model_admin: "LongListAdmin"
    selection: Selection
    page: Page
    before: Position | None

    def get_filters_params(self, params: Any = None) -> dict[str, Any]:
        own = {*self.model_admin.long_list.form.base_fields, BEFORE_VAR}
        return {name: value for name, value in super().get_filters_params(params).items() if name not in own}

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> QuerySet:
        """No row: `get_results` reads them. Django's refuses every other filter in the URL."""
        form = self.model_admin.long_list.form
        invalid = request.method == "POST"  # LongListAdmin redirects what is valid
        self.selection = Selection(
            self.model_admin.long_list, form(request.POST) if invalid else form.from_url(request.GET)
        )
        self.before = Position.parse(request.GET.get(BEFORE_VAR, ""))
        return super().get_queryset(request, exclude_parameters).none()

    def get_results(self, request: HttpRequest) -> None:
        rows = self.root_queryset.select_related(*self.model_admin.list_select_related)
        self.page = self.selection.page(rows, self.before)
        self.result_list: Any = self.page.rows
        self.paginator = KeysetPaginator(self.page.rows, self.list_per_page)
        self.result_count = self.full_result_count = len(self.page.rows)
        self.show_full_result_count = self.show_admin_actions = False
        self.can_show_all = self.multi_page = False

    def notes(self) -> list[str]:
        return [match.warning for _, match in self.selection.matches if match.warning]

    # --- For the templates ----------------------------------------------------------------------------------------

    def _url(self, **changes: Any) -> str:
        """This list with other parameters; None: without one."""
        parameters = {**self.selection.form.url_parameters(), **changes}
        return "?" + urlencode({name: value for name, value in parameters.items() if value is not None})

    @property
    def here_url(self) -> str:
        return self._url()

    @property
    def newest_url(self) -> str:
        return self._url() if self.before else ""

    @property
    def older_url(self) -> str:
        return self._url(**{BEFORE_VAR: self.page.older}) if self.page.older else ""

    @property
    def ever_url(self) -> str:
        return self._url(since=EVER, until=None)

    @property
    def selected(self) -> list[tuple[str, str, list[tuple[str, str]]]]:
        """For each filter what it selects, for one without a visible field the URL without it, and the URL and the name
        of each choice."""
        hidden = {field.name for field in self.selection.form.hidden_fields()}
        return [
            (
                match.note,
                self._url(**{each.name: None}) if each.name in hidden else "",
                [(self._url(**{each.name: value}), name) for value, name in match.choices or ()],
            )
            for each, match in self.selection.matches
            if match.note
        ]


class LongListAdmin(ReadOnlyAdmin, LargeTableAdmin):
    """The console's page of a long list. A user who may not view it gets 403, whatever the form has."""

    long_list: LongList
    list_select_related: tuple[str, ...] = ()
    changelist_class = LongChangeList
    sortable_by = ()

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        require(self.has_view_permission(request))
        if request.method == "POST":
            form = self.long_list.form(request.POST)
            if form.is_valid():
                return redirect(f"{request.path}?{urlencode(form.url_parameters())}")
        return super().changelist_view(request, extra_context)
