"""What the operator says about numbers, in Django's admin: contacts, complaints, and rules above every source; and
what became of the sources that were asked."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from django import forms
from django.contrib import admin, messages
from django.contrib.admin.views.main import PAGE_VAR, SEARCH_VAR, ChangeListSearchForm
from django.core.exceptions import PermissionDenied
from django.db import OperationalError, transaction
from django.db.models import Model, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils import timezone
from django.utils.text import capfirst
from unfold.widgets import UnfoldAdminTextInputWidget

from accounts import periods
from accounts.admin.base import IndexedChangeList, LongListAdmin, ReadOnlyAdmin
from lookup import marks, numbers, sealing, sources
from lookup.answers import clean_text
from lookup.models import ComplaintDay, Contact, NumberRule, Usage

_PREFIX = re.compile(r"\+?([1-9][0-9]{0,14})\*?")
#: A search finds at most so many rows: sorting more would take the database longer than a page may.
MAX_FOUND = 1_000
#: What is searched for is cut at so many characters: an address has to hold it.
MAX_TERM = 100


def that_begin_with(prefix: str, rows: QuerySet, limit: int) -> list[Any]:
    """The primary keys of the `rows` whose number begins with `prefix`, the least numbers first, at most `limit`.

    Numbers are 64-bit integers of 7 to 15 digits: for each length a range of the index. Asked one by one they come in
    order by themselves, for a longer number is a greater one; asked as one OR they would all be sorted.
    """
    first, keys = int(prefix), list[Any]()
    for length in range(max(7, len(prefix)), 16):
        block = 10 ** (length - len(prefix))
        found = rows.filter(number__gte=first * block, number__lt=(first + 1) * block).order_by("number")
        keys += found.values_list("pk", flat=True)[: limit - len(keys)]
        if len(keys) == limit:
            break
    return keys


class NumberForm(forms.ModelForm):
    number = forms.CharField(
        widget=UnfoldAdminTextInputWidget(attrs={"inputmode": "tel", "autocomplete": "off"}),
        help_text="With the country code, for example +49 30 23125042. Spaces, hyphens, dots and parentheses are "
        "removed.",
    )

    #: Of these at least one is needed.
    one_of: tuple[str, ...] = ()

    def clean_number(self) -> int:
        try:
            return int(numbers.read(self.cleaned_data["number"]))
        except numbers.InvalidNumber as error:
            sentence = f"Invalid phone number ({error}). Enter it with its country code, for example +49 30 23125042."
            raise forms.ValidationError(sentence) from error

    def clean(self) -> dict[str, Any]:
        data = super().clean() or self.cleaned_data
        for name, value in data.items():
            if isinstance(value, str):
                data[name] = clean_text(value)
        if self.one_of and not self.errors and all(data[name] in (None, "") for name in self.one_of):
            raise forms.ValidationError(f"At least one of these is needed: {', '.join(self.one_of)}.")
        return data


class ContactForm(NumberForm):
    one_of = ("name", "location")


class NumberRuleForm(NumberForm):
    one_of = ("spam", "name")


class SealedSearchForm(ChangeListSearchForm):
    """The term as it stands in an address: sealed."""

    def clean(self) -> dict[str, Any]:
        data = dict(super().clean() or self.cleaned_data)
        if data.get(SEARCH_VAR):
            try:
                data[SEARCH_VAR] = sealing.unseal(data[SEARCH_VAR])
            except ValueError:
                self.add_error(SEARCH_VAR, "Use the search field: a number in an address would be logged.")
                del data[SEARCH_VAR]
        return data


class NumberChangeList(IndexedChangeList):
    search_form_class = SealedSearchForm

    def url_for_result(self, result: Model) -> str:
        """As Django's, which takes the key itself."""
        row = cast(NumberAdmin, self.model_admin).addressed(result)
        return reverse(f"admin:{self.opts.app_label}_{self.opts.model_name}_change", args=[row.pk])


class Addressed:
    """A row whose `pk` is what stands for it in addresses. For Django's and unfold's templates and history, which make
    addresses of that."""

    def __init__(self, row: Model, address: str) -> None:
        self._row = row
        self.pk = address

    def __getattr__(self, name: str) -> Any:
        return getattr(self._row, name)

    def __str__(self) -> str:
        return str(self._row)


class NumberAdmin(LongListAdmin):
    """By number. What identifies a row is set when it is added and stays.

    No address has a number: a row whose key is its number is addressed by that number sealed, and a search is sent by
    POST and redirected to its term sealed.
    """

    form: type[forms.ModelForm] = NumberForm
    key: tuple[str, ...] = ("number",)

    def addressed(self, row: Any) -> Any:
        return Addressed(row, sealing.seal(str(row.pk))) if self.opts.pk.name == "number" else row

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        if self.opts.pk.name == "number":
            try:
                object_id = sealing.unseal(object_id)
            except ValueError:
                return None
        return super().get_object(request, object_id, from_field)

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[NumberChangeList]:
        return NumberChangeList

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        if request.method == "POST" and "search_term" in request.POST:
            address = request.GET.copy()
            address.pop(PAGE_VAR, None)
            address[SEARCH_VAR] = sealing.seal(request.POST["search_term"].strip()[:MAX_TERM])
            return HttpResponseRedirect(f"{request.path}?{address.urlencode()}")
        return super().changelist_view(request, extra_context)

    def render_change_form(
        self, request: HttpRequest, context: dict[str, Any], *args: Any, obj: Any = None, **kwargs: Any
    ) -> HttpResponse:
        if obj is not None:
            context["original"] = self.addressed(obj)
        return super().render_change_form(request, context, *args, obj=obj, **kwargs)

    def render_delete_form(self, request: HttpRequest, context: dict[str, Any]) -> HttpResponse:
        context["object"] = self.addressed(context["object"])
        return super().render_delete_form(request, context)

    def history_view(self, request: HttpRequest, object_id: str, *args: Any, **kwargs: Any) -> HttpResponse:
        response = super().history_view(request, object_id, *args, **kwargs)
        context = getattr(response, "context_data", None) or {}
        if "object" in context:
            context["object"] = self.addressed(context["object"])
        return response

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> Any:
        """Without links; nothing else is deleted with these rows."""
        _, counts, lacking, protected = super().get_deleted_objects(objs, request)
        return [f"{capfirst(self.opts.verbose_name)}: {row}" for row in objs], counts, lacking, protected

    def response_add(self, request: HttpRequest, obj: Any, post_url_continue: str | None = None) -> HttpResponse:
        return super().response_add(request, self.addressed(obj), post_url_continue)

    def log_addition(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        return super().log_addition(request, self.addressed(obj), message)

    def log_change(self, request: HttpRequest, obj: Any, message: Any) -> Any:
        return super().log_change(request, self.addressed(obj), message)

    def log_deletions(self, request: HttpRequest, queryset: Any) -> Any:
        return super().log_deletions(request, [self.addressed(row) for row in queryset])

    def get_readonly_fields(self, request: HttpRequest, obj: Model | None = None) -> tuple[str, ...]:
        return () if obj is None else self.key

    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        return self._unless_busy(request, super().changeform_view, *args, **kwargs)

    def delete_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        return self._unless_busy(request, super().delete_view, *args, **kwargs)

    def _unless_busy(self, request: HttpRequest, view: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """An import that writes the same row is waited for no longer than a statement may take."""
        try:
            return view(request, *args, **kwargs)
        except OperationalError:
            sentence = "Nothing was changed: the database did not answer in time. An import may be writing; try again."
            self.message_user(request, sentence, messages.ERROR)
            return HttpResponseRedirect(request.get_full_path())

    def get_search_results(self, request: HttpRequest, queryset: QuerySet, search_term: str) -> tuple[QuerySet, bool]:
        """Digits (`+49 3023-125042`, `4930*`) find the numbers that begin so, by their index; other text as
        `search_text` says."""
        try:
            prefix = _PREFIX.fullmatch(numbers.without_separators(search_term))
        except numbers.InvalidNumber:
            prefix = None
        if not prefix:
            return self.search_text(request, queryset, search_term)
        keys = that_begin_with(prefix[1], queryset, MAX_FOUND + 1)
        if len(keys) > MAX_FOUND:
            sentence = f"Only the first {MAX_FOUND:,} numbers that begin so are listed: type more digits."
            self.message_user(request, sentence, messages.WARNING)
        return queryset.filter(pk__in=keys[:MAX_FOUND]), False

    def search_text(self, request: HttpRequest, queryset: QuerySet, search_term: str) -> tuple[QuerySet, bool]:
        return super().get_search_results(request, queryset, search_term)


class ImportedAdmin(NumberAdmin):
    """Of a table that imports fill, with millions of rows: it is searched by number alone. What is corrected by hand
    is marked, so that no answer is used that a vendor gave before."""

    sortable_by = search_fields = ("number",)
    search_help_text = "Number prefix, e.g. 4930"
    overwritten = (
        "A later import of this number overwrites your changes and restores what you delete. "
        "Rules override all sources and imports."
    )

    def search_text(self, request: HttpRequest, queryset: QuerySet, search_term: str) -> tuple[QuerySet, bool]:
        if not search_term.strip():
            return queryset, False
        sentence = "Only numbers are searched here: type the beginning of one, with its country code, such as 4930."
        self.message_user(request, sentence, messages.WARNING)
        return queryset.none(), False

    def save_model(self, request: HttpRequest, obj: Any, form: forms.ModelForm, change: bool) -> None:
        with transaction.atomic():
            marks.set([obj.number])
            super().save_model(request, obj, form, change)

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        with transaction.atomic():
            marks.set([obj.number])
            super().delete_model(request, obj)

    def delete_queryset(self, request: HttpRequest, queryset: QuerySet) -> None:
        with transaction.atomic():
            marks.set(queryset.values_list("number", flat=True))
            super().delete_queryset(request, queryset)


class DatedNumberAdmin(NumberAdmin):
    @admin.display(description="updated (UTC)", ordering="updated_at")
    def updated(self, row: Any) -> str:
        return f"{row.updated_at:%Y-%m-%d %H:%M}"

    def save_model(self, request: HttpRequest, obj: Any, form: forms.ModelForm, change: bool) -> None:
        obj.updated_at = timezone.now()
        super().save_model(request, obj, form, change)


@admin.register(Contact)
class ContactAdmin(DatedNumberAdmin, ImportedAdmin):
    form = ContactForm
    ordering = ("number",)
    list_display = ("number", "name", "location", "updated")
    fieldsets = ((None, {"fields": ("number", "name", "location"), "description": ImportedAdmin.overwritten}),)


@admin.register(NumberRule)
class NumberRuleAdmin(DatedNumberAdmin):
    form = NumberRuleForm
    ordering = ("number",)
    fields = ("number", "spam", "name", "note")
    list_display = ("number", "verdict", "name", "note", "updated")
    list_filter = ("spam",)
    lookups_allowed = ("spam__exact", "spam__isnull")
    search_fields = ("name",)
    search_help_text = "Number prefix, e.g. 4930, or part of a name"

    @admin.display(description="spam", ordering="spam")
    def verdict(self, rule: NumberRule) -> str:
        """In words: of Django's signs for yes and no, spam would get the green one."""
        return {True: "spam", False: "not spam", None: "-"}[rule.spam]


class ComplaintDayForm(NumberForm):
    def clean(self) -> dict[str, Any]:
        data = super().clean()
        if (day := data.get("day")) and day > datetime.now(UTC).date() + timedelta(days=1):
            self.add_error("day", "The day is in the future.")
        if data.get("robocalls") is not None and data.get("total") is not None and data["robocalls"] > data["total"]:
            self.add_error("robocalls", "More robocalls than complaints.")
        return data


@admin.register(ComplaintDay)
class ComplaintDayAdmin(ImportedAdmin):
    """The subject is the source's own, and read-only: it may be one that an import has taken away since."""

    form = ComplaintDayForm
    key = ("number", "source", "day", "subject")
    ordering = ("number", "source", "day")
    list_display = ("number", "source", "on", "total", "robocalls", "subject")

    @admin.display(description="day", ordering="day")
    def on(self, row: ComplaintDay) -> str:
        return f"{row.day:%Y-%m-%d}"

    def get_fieldsets(self, request: HttpRequest, obj: Model | None = None) -> Any:
        fields = ["number", "source", "day", "total", "robocalls", *(["subject"] if obj else [])]
        return [(None, {"fields": fields, "description": self.overwritten})]

    def get_queryset(self, request: HttpRequest) -> QuerySet:
        """With the subject, which is None where the row's is no longer there."""
        return super().get_queryset(request).select_related("subject")


@admin.register(Usage)
class UsageAdmin(ReadOnlyAdmin):
    """Sums by source instead of a list of rows."""

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        if not self.has_view_permission(request):
            raise PermissionDenied
        period, now = periods.asked_for(request.GET, periods.WITH_SHORTEST), timezone.now()
        context = {
            "title": "Usage",
            "periods": periods.WITH_SHORTEST,
            "period": period,
            "since": period.since(now),
            "now": now,
            "report": sources.report(period.since(now)),
            "failures": sources.failures(period.since(now)),
            **(extra_context or {}),
        }
        return self.page(request, "change_list.html", **context)
