"""Base classes of the console's pages about tokens, customers and credits."""

from collections.abc import Collection, Mapping
from itertools import takewhile
from typing import Any

from django.contrib import messages
from django.contrib.admin.views.main import ORDER_VAR
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.decorators import method_decorator
from django.utils.html import format_html
from django.views.decorators.http import require_safe
from unfold.decorators import action

from accounts import tokens
from accounts.admin import search_text
from core.admin import IndexedChangeList, LargeTableAdmin, ReadOnlyAdmin
from core.cells import change_link, column
from core.sorting import none_last


class TokenRefusingAdmin(LargeTableAdmin):
    """A list that refuses a whole token, in whichever field, so that neither the page nor the address shows it."""

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        try:
            for text in (request.POST or request.GET).values():
                tokens.require_no_token(str(text))
        except tokens.WholeToken as error:
            self.message_user(request, str(error), messages.ERROR)
            return redirect(request.path)
        return super().changelist_view(request, extra_context)

    def search_problem(self, text: str) -> str:
        return search_text.token_text_problem(text) or super().search_problem(text)


class ShownAdmin(LargeTableAdmin):
    """The page of an object shows it. Its form has a page of its own, the action `edit`."""

    change_view = method_decorator(require_safe)(LargeTableAdmin.change_view)

    @action(description="Edit", permissions=["change"], url_path="edit")  # type: ignore[untyped-decorator]
    def edit(self, request: HttpRequest, object_id: str) -> HttpResponse:
        context = {"editing": True, "title": f"Edit {self.opts.verbose_name}", "show_save_and_add_another": False}
        return self.changeform_view(request, object_id, extra_context=context)


class NewestRowsList(IndexedChangeList):
    """Filters, sorting and search cover the newest MAX_SCANNED rows, and those that the search text identifies."""

    #: For the note: `tokens; #id and … find any token`.
    limit: str
    #: Orders of columns that `sort_values` has: the database would compute them for each row by itself.
    computed: Collection[str] = ()
    #: A filter's parameter and value → the column by which the list is sorted then.
    sorted_with: Mapping[tuple[str, str], str] = {}
    scan_limited = False

    def identified(self) -> Q:
        return Q(pk=search_text.id_in(self.query))

    def with_figures(self) -> QuerySet:
        """The rows with what the list shows of them."""
        raise NotImplementedError

    def sort_values(self, ids: list[int], names: Collection[str]) -> Mapping[str, Mapping[int, Any]]:
        """For these names in `computed` the values by id; rows without one are last. `ids`: those of `queryset`."""
        raise NotImplementedError

    def get_ordering(self, request: HttpRequest, queryset: QuerySet) -> list[Any]:
        """That of the database; the terms in `computed` before it are in `sorted_by`."""
        ordering: list[Any] = super().get_ordering(request, queryset)
        if ORDER_VAR not in request.GET:
            ordering[:0] = [column for given, column in self.sorted_with.items() if given in request.GET.items()]
        self.sorted_by = list(takewhile(self._is_computed, ordering))
        return [term for term in ordering if not self._is_computed(term)]

    def _is_computed(self, term: str) -> bool:
        return term.removeprefix("-") in self.computed

    def page_ids(self) -> list[int]:
        """The ids of the page's rows, in their order."""
        if not self.sorted_by:
            return [row.pk for row in self.result_list]
        ids = list(self.queryset.values_list("pk", flat=True))
        values = self.sort_values(ids, {term.removeprefix("-") for term in self.sorted_by})
        for term in reversed(self.sorted_by):
            ids = none_last(ids, values[term.removeprefix("-")].get, reverse=term.startswith("-"))
        if not self.multi_page or (self.show_all and self.can_show_all):
            return ids
        first = (self.page_num - 1) * self.list_per_page
        return ids[first : first + self.list_per_page]

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> QuerySet:
        found = super().get_queryset(request, exclude_parameters)
        floor_id = search_text.scan_floor_id(self.model)
        self.scan_limited = bool(self.params) and floor_id > 0
        return found.filter(Q(pk__gt=floor_id) | self.identified()) if self.scan_limited else found

    def notes(self) -> list[str]:
        return [f"Among the newest {search_text.MAX_SCANNED:,} {self.limit}."] * self.scan_limited + super().notes()

    def get_results(self, request: HttpRequest) -> None:
        """Computes the figures of the page's rows alone: the database would for every row scanned."""
        super().get_results(request)
        self.is_newest_first = self.is_newest_first and not self.sorted_by
        ids = self.page_ids()
        rows = self.with_figures().in_bulk(ids)
        self.result_list = [rows[pk] for pk in ids if pk in rows]


def _token_link(row: Any) -> str:
    """With the name of its customer, unless the list is about one customer alone."""
    customer = None if getattr(row, "is_of_listed_customer", False) else row.token and row.token.customer
    owner = format_html(" <small><bdi>{}</bdi></small>", customer.name) if customer else ""
    return format_html("{}{}", change_link("accounts_apitoken", row.token_id, row.token), owner)


class TokenRowsAdmin(ReadOnlyAdmin, LargeTableAdmin):
    """Read-only rows about tokens, with `token` and `created_at`."""

    sortable_by = ()

    when = column(lambda row: f"{row.created_at:%Y-%m-%d %H:%M:%S}", "time (UTC)")
    # As text: Django keeps the cell of a foreign key on one line, which makes the table too wide.
    token_link = column(_token_link, "token")
