"""Base class of the pages about numbers. No URL has a number; lists are searched by number prefix."""

import json
import re
from collections.abc import Callable, Iterable
from typing import Any, cast

from django import forms
from django.contrib import messages
from django.contrib.admin.views.main import ORDER_VAR, SEARCH_VAR
from django.contrib.auth.models import User
from django.db import OperationalError, transaction
from django.db.models import Model, QuerySet, TextField
from django.db.models.functions import Cast
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.safestring import SafeString

from core import history, numbers
from core.admin import IndexedChangeList, LargeTableAdmin
from core.cells import column
from core.forms import PhoneNumberField
from core.text import clean_text, without_joiners

SEARCH_TERM, NEW_NUMBER = "search_term", "new_number"
#: By title, the pages of apps above that take a number: the permission to view one, and the name of its URL, to which
#: `number` is sent by POST.
NUMBER_PAGES: dict[str, tuple[str, str]] = {}
#: The number of an object in Django's messages: in quotation marks, perhaps as a link.
_NAMED = re.compile("(?<=[>“])[1-9]([0-9]{6,14}(?=[ <”])|[0-9]*…)")
#: The order in which numbers with the same beginning follow each other. It has no index: for few rows.
BY_DIGITS = Cast("number", TextField())


def number_pages(request: HttpRequest) -> dict[str, Any]:
    """Context of buttons for NUMBER_PAGES: title and URL name of those that the user may open, by title."""
    pages = sorted(NUMBER_PAGES.items())
    return {"number_pages": [(title, name) for title, (allowed, name) in pages if request.user.has_perm(allowed)]}


def number_prefix(text: str) -> str | None:
    """The digits with which the numbers begin that `text` searches for; None if it is other text."""
    try:
        return numbers.parse_prefix(text.strip().removesuffix("*"))
    except numbers.InvalidNumber:
        return None


def find_by_prefix(prefix: str, rows: QuerySet, limit: int) -> list[Any]:
    """The primary keys of the `rows` whose number begins with `prefix`, in ascending order, at most `limit`.

    Numbers are integers of at most 15 digits: for each length, a range of the index. One query per length returns them
    in order, because longer numbers are greater; one query with OR would have to sort all of them.
    """
    first, keys = int(prefix), list[Any]()
    for length in range(len(prefix), numbers.MAX_DIGITS + 1):
        block = 10 ** (length - len(prefix))
        found = rows.filter(number__gte=first * block, number__lt=(first + 1) * block).order_by("number")
        keys += found.values_list("pk", flat=True)[: limit - len(keys)]
        if len(keys) == limit:
            break
    return keys


def _in_groups(text: str) -> str:
    """`text`, in which quotation marks or HTML elements hold numbers, with these as lists show them."""
    shown = _NAMED.sub(lambda n: f"+{n[0]}" if n[0].endswith("…") else numbers.formatted(n[0]), text)
    return SafeString(shown) if isinstance(text, SafeString) else shown


class PhoneNumberForm(forms.ModelForm):
    number = PhoneNumberField(
        help_text="With country code, for example +49 30 23125042. Spaces, hyphens, dots and parentheses are removed."
    )

    #: At least one of these fields is required.
    one_of: tuple[str, ...] = ()

    def clean(self) -> dict[str, Any]:
        data = super().clean() or self.cleaned_data
        for name, value in data.items():
            if isinstance(value, str):
                data[name] = clean_text(value)
        if self.one_of and not self.errors and all(data[name] in (None, "") for name in self.one_of):
            raise forms.ValidationError(f"Enter at least one of these: {', '.join(self.one_of)}.")
        return data


class NumberChangeList(IndexedChangeList):
    """Searched by POST. The search term is in no URL, so a search lists one page, and actions take only rows of it."""

    is_cut, ascending_first = False, ("phone",)

    def get_ordering(self, request: HttpRequest, queryset: QuerySet) -> list[Any]:
        ordering: list[Any] = super().get_ordering(request, queryset)
        return [BY_DIGITS, *ordering] if self.query and ORDER_VAR not in self.params else ordering

    def get_queryset(self, request: HttpRequest, exclude_parameters: Any = None) -> QuerySet:
        if SEARCH_TERM in request.POST:
            self.query, self.page_num = request.POST[SEARCH_TERM].strip(), 1
        return super().get_queryset(request, exclude_parameters)

    def get_results(self, request: HttpRequest) -> None:
        super().get_results(request)
        if self.query:
            self.is_cut, self.multi_page, self.can_show_all = self.multi_page, False, False
            self.result_count = min(self.result_count, self.list_per_page)

    def notes(self) -> list[str]:
        note = f"Only the first {self.list_per_page} matching rows are listed. Enter more digits."
        return [note] if self.is_cut else super().notes()


class NumberAdmin(LargeTableAdmin):
    """The fields in `key` identify a row: they are set when it is added, and read-only from then on.

    Search terms, and numbers to add, are sent by POST and are in no URL.
    """

    form: type[forms.ModelForm] = PhoneNumberForm
    changelist_class = NumberChangeList
    key: tuple[str, ...] = ("number",)
    ordering: Any = ("-pk",)
    change_form_outer_before_template = "admin/phonebook/number_pages.html"
    phone = column(lambda row: numbers.formatted(str(row.number)), "number", "number")

    def get_changeform_initial_data(self, request: HttpRequest) -> dict[str, Any]:
        """As Django's, from the URL, but the number from the body alone."""
        return {**super().get_changeform_initial_data(request), "number": request.POST.get(NEW_NUMBER, "")}

    def add_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """Also takes the number to fill in, by POST, from another page of the console."""
        if NEW_NUMBER in request.POST:
            request.method = "GET"
        return super().add_view(request, *args, **kwargs)

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        problem = self.search_problem(request.POST.get(SEARCH_TERM, ""))
        if SEARCH_VAR in request.GET:
            problem = "Use the search field: a number in a URL would be logged."
        if problem:
            self.message_user(request, problem, messages.ERROR)
            return HttpResponseRedirect(request.path)
        if "action" in request.POST:
            return self._explain_timeout(request, super().changelist_view, extra_context)
        return super().changelist_view(request, extra_context)

    def get_fieldsets(self, request: HttpRequest, obj: Model | None = None) -> Any:
        """As Django's, with the number of a row in groups."""
        fieldsets = super().get_fieldsets(request, obj)
        if obj is None:
            return fieldsets
        return [
            (title, {**options, "fields": ["phone" if name == "number" else name for name in options["fields"]]})
            for title, options in fieldsets
        ]

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> tuple[str, ...]:
        return () if obj is None else ("phone", *self.key)

    def page_context(self, request: HttpRequest, obj: Any) -> dict[str, Any]:
        pages = {} if getattr(obj, "is_prefix", False) else number_pages(request)
        return {"subtitle": self.phone(obj), **pages}

    def message_user(self, request: HttpRequest, message: str, *args: Any, **kwargs: Any) -> None:
        """Django's messages, with numbers as lists show them."""
        super().message_user(request, _in_groups(message), *args, **kwargs)

    def log_addition(self, request: HttpRequest, obj: Any, message: Any) -> None:
        self._record(request, obj, history.Action.ADDITION, message)

    def log_change(self, request: HttpRequest, obj: Any, message: Any) -> None:
        self._record(request, obj, history.Action.CHANGE, message)

    def log_deletions(self, request: HttpRequest, queryset: Iterable[Any]) -> None:
        with transaction.atomic():
            for obj in queryset:
                self._record(request, obj, history.Action.DELETION, "")

    def _record(self, request: HttpRequest, obj: Any, action: history.Action, message: Any) -> None:
        """Django's History entry, with the number masked: entries outlive what they are about."""
        name, digits = str(obj), str(obj.number)
        if len(digits) >= numbers.MIN_DIGITS:
            name = name.replace(digits, numbers.mask(digits), 1)
        text = json.dumps(message) if isinstance(message, list) else message
        history.record(user=cast(User, request.user), action=action, target=obj, name=name, message=text)

    def get_deleted_objects(
        self, objs: Any, request: HttpRequest
    ) -> tuple[list[Any], dict[str, int], set[str], list[str]]:
        names, *others = super().get_deleted_objects(objs, request)
        return [_in_groups(name) for name in names], *others

    def render_delete_form(self, request: HttpRequest, context: dict[str, Any]) -> HttpResponse:
        shown = _in_groups(f"“{context['object']}”").strip("“”")
        return super().render_delete_form(request, {**context, "shown": shown, "subtitle": shown})

    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        return self._explain_timeout(request, super().changeform_view, *args, **kwargs)

    def delete_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        return self._explain_timeout(request, super().delete_view, *args, **kwargs)

    def _explain_timeout(self, request: HttpRequest, view: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """The response of `view`, or a message if its statement timed out, as when an import has locked the table."""
        try:
            return view(request, *args, **kwargs)
        except OperationalError:
            message = "Nothing was changed: the database timed out. An import may be running; try again."
            self.message_user(request, message, messages.ERROR)
            return HttpResponseRedirect(request.get_full_path())

    def get_search_results(self, request: HttpRequest, queryset: QuerySet, search_term: str) -> tuple[QuerySet, bool]:
        """Digits (`+49 3023-125042`, `4930*`) find numbers with this prefix, other text what Django's search finds."""
        if prefix := number_prefix(search_term):
            return queryset.filter(pk__in=find_by_prefix(prefix, queryset, self.list_per_page + 1)), False
        return super().get_search_results(request, queryset, without_joiners(search_term))
