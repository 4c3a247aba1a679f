"""Long lists of the console: rows with `created_at`, newest first, which a form filters, read a page at a time.

A table may have hundreds of millions of rows, and each statement must end within the statement timeout. So nothing is
counted, one of the filters is served by an index in order of time, and the others are applied to SCANNED rows of it at
a time.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from django import forms
from django.contrib.admin.views.main import ChangeList
from django.core.exceptions import ValidationError
from django.core.paginator import Paginator
from django.db.models import DateTimeField, Field, Func, Q, QuerySet, Value
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
PAGE_ROWS = 50
BEFORE_VAR = "before"
_ORDER = "-created_at", "-pk"
_FIRST, _LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


# --- Fields ----------------------------------------------------------------------------------------------------------


class MomentField(forms.DateTimeField):
    """A day, minute or second in UTC: Django's, as browsers send it."""

    def __init__(self, label: str) -> None:
        widget = UnfoldAdminTextInputWidget(attrs={"type": "datetime-local"})
        messages = {"invalid": "Enter a time as YYYY-MM-DDTHH:MM."}
        super().__init__(label=label, required=False, widget=widget, error_messages=messages)


def text_field(label: str, placeholder: str, max_length: int) -> forms.CharField:
    widget = UnfoldAdminTextInputWidget(attrs={"placeholder": placeholder, "autocomplete": "off"})
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


class ListForm(forms.Form):
    """The filters of a list, and the period that is listed, by default the last 24 hours: `page` reads what they
    select. Submitted by POST, and then part of the URL, where a day may stand for a moment."""

    since = MomentField("From (UTC)")
    until = MomentField("To (UTC)")

    #: The first fields; the others are folded on phones, under `more`.
    main: tuple[str, ...]
    more: str
    #: What the rows are, and a sentence for an empty list.
    noun: str
    empty_help = ""

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

    def clean_until(self) -> datetime | None:
        """The end of the minute."""
        until: datetime | None = self.cleaned_data["until"]
        return until and until.replace(second=59, microsecond=999_999)

    def clean(self) -> dict[str, Any]:
        data = super().clean() or self.cleaned_data
        if data.get("since") and data.get("until") and data["since"] > data["until"]:
            self.add_error("until", "The end is before the start.")
        return data

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
        first, last = self.cleaned_data["since"], self.cleaned_data["until"] or _LAST
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
    """One page, of a list: the next one begins after its last row. No statement counts."""

    template_name = "admin/long_list_pages.html"


class LongChangeList(ChangeList):
    """Lists what a ListForm selects; its fields are the only filters."""

    model_admin: "LongListAdmin"
    form: ListForm
    page: Page
    before: Position | None

    def get_filters_params(self, params: Any = None) -> dict[str, Any]:
        own = {*self.model_admin.list_form.base_fields, BEFORE_VAR}
        return {name: value for name, value in super().get_filters_params(params).items() if name not in own}

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> QuerySet:
        """No row: `get_results` reads them. Django's refuses every other filter in the URL."""
        form = self.model_admin.list_form
        invalid = request.method == "POST"  # LongListAdmin redirects what is valid
        self.form = form(request.POST) if invalid else form.from_url(request.GET)
        self.before = Position.parse(request.GET.get(BEFORE_VAR, ""))
        return super().get_queryset(request, exclude_parameters).none()

    def get_results(self, request: HttpRequest) -> None:
        rows = self.root_queryset.select_related(*self.model_admin.list_select_related)
        self.page = self.form.page(rows, self.before)
        self.result_list: Any = self.page.rows
        self.paginator = KeysetPaginator(self.page.rows, self.list_per_page)
        self.result_count = self.full_result_count = len(self.page.rows)
        self.show_full_result_count = self.show_admin_actions = False
        self.can_show_all = self.multi_page = False

    def notes(self) -> list[str]:
        return [each.warning for each in self.form.filters if each.warning]

    # --- For the templates ----------------------------------------------------------------------------------------

    def _url(self, **changes: Any) -> str:
        """This list with other parameters; None: without one."""
        parameters = {**self.form.url_parameters(), **changes}
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
        hidden = {field.name for field in self.form.hidden_fields()}
        return [
            (
                each.note,
                self._url(**{each.name: None}) if each.name in hidden else "",
                [(self._url(**{each.name: value}), name) for value, name in each.choices or ()],
            )
            for each in self.form.filters
            if each.note
        ]


class LongListAdmin(ReadOnlyAdmin, LargeTableAdmin):
    """The console's page of a long list. A user who may not view it gets 403, whatever the form has."""

    list_form: type[ListForm]
    list_select_related: tuple[str, ...] = ()
    changelist_class = LongChangeList
    sortable_by = ()

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        require(self.has_view_permission(request))
        if request.method == "POST":
            form = self.list_form(request.POST)
            if form.is_valid():
                return redirect(f"{request.path}?{urlencode(form.url_parameters())}")
        return super().changelist_view(request, extra_context)
