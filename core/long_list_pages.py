"""The console's page of a long list (core.long_lists): its filters, what they select, and a page of rows."""

from datetime import datetime, tzinfo
from typing import Any

from django import forms
from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils import timezone
from django.utils.http import urlencode

from core import periods
from core.admin import (
    LargeTableAdmin,
    ReadOnlyAdmin,
    Selected,
    require,
)
from core.long_lists import CALENDAR, CHOSEN_PERIOD, EVER, PERIOD, ListForm, Page, Position
from core.periods import CalendarPeriod

BEFORE_VAR = "before"


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
        self._show_zone()
        self.model_admin.complete(request, self.page.rows)
        self.result_list: Any = self.page.rows
        self.paginator = KeysetPaginator(self.page.rows, self.list_per_page)
        self.result_count = self.full_result_count = len(self.page.rows)
        self.show_full_result_count = self.show_admin_actions = False
        self.can_show_all = self.multi_page = False

    def _show_zone(self) -> None:
        """The column `when` has times in the form's zone, which its heading names."""

        @admin.display(description=f"time ({self.form.zone_name})")
        def when(row: Any) -> str:
            return f"{row.created_at.astimezone(self.form.tzinfo):%Y-%m-%d %H:%M:%S}"

        self.list_display = [when if name == "when" else name for name in self.list_display]
        self.list_display_links = [when]

    def notes(self) -> list[str]:
        return [each.warning for each in self.form.filters if each.warning]

    # --- For the templates ----------------------------------------------------------------------------------------

    choose_period, calendar = CHOSEN_PERIOD, CALENDAR

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
        """Empty if the whole time is the default period."""
        is_listed = self.form.is_specific and self.form.has_default_period
        return "" if is_listed else self._url(**{**_NO_PERIOD, "since": EVER})

    @property
    def searched_to(self) -> str:
        """How far back rows were searched, if the page is not full because of SCANNED."""
        return local_time(self.page.searched_to, self.form.tzinfo) if self.page.searched_to else ""

    @property
    def selected(self) -> list[Selected]:
        """What each filter that is set selects."""
        form, notes = self.form, {each.name: each for each in self.form.filters}
        if not form.is_valid():
            return []
        found = []
        for name in form.fields:
            if name in ListForm.base_fields or not form.data[name]:
                continue
            own = notes.get(name)
            choices = [(self._url(**{name: value}), text) for value, text in (own and own.choices) or ()]
            note = (own and own.note) or f"{form[name].label}: {_shown(form[name])}"
            found.append(Selected(note, self._url(**{name: None}), choices))
        return [*found, self._selected_period()]

    def _selected_period(self) -> Selected:
        if self.form.has_default_period:
            text = "The whole time, unless you select a period" if self.form.is_specific else "The last 24 hours"
            return Selected(text, self.ever_url)
        data, zone, period = self.form.cleaned_data, self.form.tzinfo, self.form.chosen_period
        if period and (period.calendar or not period.is_over):
            title = f"{period.title}, UTC" if period.calendar else f"The last {period.title}"
            return Selected(title, self._url(**_NO_PERIOD))
        since, until = (
            f"{data[name].astimezone(zone):%Y-%m-%d %H:%M}" if data[name] else "" for name in ("since", "until")
        )
        text = "The whole time" if since.startswith(EVER) else f"From {since}"
        return Selected(f"{text}{until and f' to {until}'} ({self.form.zone_name})", self._url(**_NO_PERIOD))

    @property
    def periods(self) -> list[tuple[str, str, bool]]:
        """Title and key of each of periods.LISTED, and whether it is listed now."""
        is_default = self.form.has_default_period and not self.form.is_specific
        now = PERIOD if is_default else self.form.chosen_period
        return [(period.title, period.key, period is now) for period in periods.LISTED]

    @property
    def calendars(self) -> list[tuple[str, list[CalendarPeriod]]]:
        """The months and quarters of all rows."""
        rows = self.root_queryset.model._default_manager.all()
        return periods.calendars(self.form.first_row_at(rows), timezone.now())


_NO_PERIOD = dict.fromkeys(("since", "until", "period"))


def _shown(field: forms.BoundField) -> str:
    """The value of a valid field as its choice is called."""
    names = dict(getattr(field.field, "choices", ()))
    return str(names.get(field.data, field.data))


def local_time(at: datetime, zone: tzinfo) -> str:
    """`2026-03-09 14:20:30 CET`."""
    return f"{at.astimezone(zone):%Y-%m-%d %H:%M:%S %Z}"


class LongListAdmin(ReadOnlyAdmin, LargeTableAdmin):
    """The console's page of a long list, whose column `when` links each row. A user who may not view it gets 403,
    whatever the form has."""

    list_form: type[ListForm]
    list_select_related: tuple[str, ...] = ()
    changelist_class = LongChangeList
    sortable_by = ()

    def complete(self, request: HttpRequest, rows: list[Any]) -> None:
        """Add to the rows of a page what other tables know of them, by a fixed number of statements."""

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        require(self.has_view_permission(request))
        if request.method == "POST":
            form = self.list_form(request.POST)
            if form.is_valid():
                return redirect(f"{request.path}?{urlencode(form.url_parameters())}")
        return super().changelist_view(request, extra_context)
