"""What all of the console's pages share. The look is django-unfold's: of it, Python uses base classes and widgets."""

from collections.abc import Callable
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.contrib.admin import ShowFacets
from django.contrib.admin.views.main import ChangeList
from django.contrib.auth import get_user_model
from django.core.exceptions import PermissionDenied, ValidationError
from django.core.paginator import Paginator
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.functional import cached_property
from django.utils.html import format_html
from unfold.admin import ModelAdmin

from accounts import credits

#: A list has at most so many rows: nobody turns more pages, and counting more would take the database longer than a
#: page may.
MAX_LISTED = 10_000
#: Django's page that asks again has a field for each row, and takes no form of more than 1,000.
MAX_ACTED_ON = 900


def link(address: str, text: object) -> str:
    """Legible on white and on black."""
    return format_html('<a class="text-primary-600 underline dark:text-primary-400" href="{}">{}</a>', address, text)


def require_allowance(request: HttpRequest, amount: int) -> None:
    """Unless they may give any credits, operators give as many as credits.require_allowance admits. Raises
    ValidationError. Within the transaction that gives them: it locks the operator.

    Not against references to the operator (FOR NO KEY UPDATE): a page that holds a token and writes the history, which
    refers to the operator, would wait for this one, and this one for the token.
    """
    name = request.user.get_username()
    if request.user.has_perm("accounts.give_any_credits"):
        return
    get_user_model().objects.select_for_update(no_key=True).get(username=name)
    try:
        credits.require_allowance(actor=name, amount=amount)
    except credits.AllowanceExceeded as error:
        raise ValidationError(str(error)) from error


def may_view_history(request: HttpRequest) -> bool:
    """Whether this user sees who did what: in the history, and on the page that an object has of its own history."""
    return request.user.has_perm("admin.view_logentry")


class ConsoleAdmin(ModelAdmin):
    def history_view(
        self, request: HttpRequest, object_id: str, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Django shows it to whoever sees the object, with all that was booked on it, by whom and why."""
        if not may_view_history(request):
            raise PermissionDenied
        return super().history_view(request, object_id, extra_context)

    def ask(
        self, request: HttpRequest, form: forms.Form, act: Callable[[dict[str, Any]], HttpResponse], **context: Any
    ) -> HttpResponse:
        """The page of `form`, with a title, a button and whose it is; when it is sent, what `act` makes of its data, in
        one transaction. Its ValueError or ValidationError undoes it and stands in the form."""
        if form.is_bound and form.is_valid():
            try:
                with transaction.atomic():
                    return act(form.cleaned_data)
            except (ValueError, ValidationError) as error:
                form.add_error(None, " ".join(error.messages) if isinstance(error, ValidationError) else str(error))
        return self.page(request, "form.html", form=form, **context)

    def page(self, request: HttpRequest, template: str, **context: Any) -> HttpResponse:
        """One of this model's own templates."""
        context = {**self.admin_site.each_context(request), "opts": self.opts, **context}
        return TemplateResponse(request, f"admin/{self.opts.app_label}/{self.opts.model_name}/{template}", context)


class ReadOnlyAdmin(ConsoleAdmin):
    """Rows that nobody writes by hand, whatever their permissions."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


class FirstRowsPaginator(Paginator):
    """Pages of the first MAX_LISTED rows."""

    @cached_property
    def _counted(self) -> int:
        rows: Any = self.object_list
        return rows.order_by()[: MAX_LISTED + 1].count()

    @cached_property
    def count(self) -> int:
        return min(self._counted, MAX_LISTED)

    @property
    def there_are_more(self) -> bool:
        return self._counted > MAX_LISTED


class IndexedChangeList(ChangeList):
    """Sorts by the columns in `sortable_by` alone: Django only hides the others' links, and obeys the address."""

    def get_ordering_field(self, field_name: Any) -> Any:
        return super().get_ordering_field(field_name) if field_name in (self.sortable_by or ()) else None


class LongListAdmin(ConsoleAdmin):
    """Of a table with millions of rows: never counted whole, and sorted by an index or not at all."""

    paginator: type[Paginator] = FirstRowsPaginator
    show_full_result_count = False
    show_facets = ShowFacets.NEVER  # an address could ask for a count by each filter
    #: The only conditions that an address may set, as its parameters name them.
    lookups_allowed: tuple[str, ...] = ()

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        """Django would take any on the model's fields, a regular expression too, and look for it in every row."""
        return lookup in self.lookups_allowed

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return IndexedChangeList

    def response_action(self, request: HttpRequest, queryset: QuerySet, *places: Any) -> HttpResponse | None:
        """What was not listed cannot have been meant: "all" are the rows that the pages show, or none."""
        across = any(value not in ("", "0") for value in request.POST.getlist("select_across"))
        if across and queryset.order_by()[: MAX_ACTED_ON + 1].count() > MAX_ACTED_ON:
            sentence = f"There are more than {MAX_ACTED_ON}: select rows one page at a time."
            self.message_user(request, sentence, messages.WARNING)
            return None
        return super().response_action(request, queryset, *places)

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        response = super().changelist_view(request, extra_context)
        context = getattr(response, "context_data", None) or {}
        if "cl" in context and context["cl"].paginator.there_are_more:
            context["subtitle"] = f"Only the first {MAX_LISTED:,} are listed."
        return response


class TokenRowsAdmin(ReadOnlyAdmin, LongListAdmin):
    """Of what happened to tokens: rows with `token` and `created_at`."""

    list_select_related = ("token",)
    list_per_page = 50
    sortable_by = ()

    @admin.display(description="when (UTC)")
    def when(self, row: Any) -> str:
        return f"{row.created_at:%Y-%m-%d %H:%M:%S}"

    @admin.display(description="token")
    def account(self, row: Any) -> str:
        """As text: Django keeps a relation's cell on one line, and the table would not fit."""
        return str(row.token)

    @admin.display(description="token")
    def token_link(self, row: Any) -> str:
        return link(reverse("admin:accounts_apitoken_change", args=[row.token_id]), row.token)
