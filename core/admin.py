"""Base classes of the console's pages, on django-unfold's."""

import pkgutil
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial, wraps
from importlib import import_module
from typing import Any, NamedTuple

from django import forms
from django.contrib import admin, messages
from django.contrib.admin import ShowFacets
from django.contrib.admin.checks import ModelAdminChecks
from django.contrib.admin.models import LogEntry
from django.contrib.admin.utils import unquote
from django.contrib.admin.views.main import ORDER_VAR, SEARCH_VAR, ChangeList
from django.core.exceptions import PermissionDenied, ValidationError
from django.core.paginator import Paginator
from django.db import OperationalError, models, transaction
from django.db.models import BigIntegerField, CharField, DecimalField, IntegerField, Model, Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, QueryDict
from django.http.response import HttpResponseBase
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.utils.functional import cached_property
from django.utils.http import urlencode
from django.utils.text import capfirst
from unfold.admin import ModelAdmin, TabularInline
from unfold.dataclasses import UnfoldAction
from unfold.decorators import action
from unfold.enums import ActionVariant

from core import edits, history
from core.cells import page_url
from core.field_errors import FieldError
from core.forms import DecimalNumberField, TextField, WholeNumberField
from core.sorting import DescendingFirstChangeList

#: Rows in a list: nobody pages further, and counting more takes the database longer than a page may.
MAX_LISTED = 10_000
#: Characters of a search.
MAX_SEARCH = 200
#: Rows in an action: Django's confirmation page has a field for each row, and accepts at most 1,000 fields.
MAX_SELECTED = 900


class RelatedPage(NamedTuple):
    """A link from the page of an object to a page of an app above. `permission`: to view that page. `url`: returns its
    URL for an object. `details`: what that page says of each of several objects in short, by key, as HTML."""

    permission: str
    url: Callable[[Any], str]
    details: Callable[[Any], dict[Any, str]] = lambda objects: {}


#: By model of the object. The app above, or an add-on, registers its page with the page's ModelAdmin.
RELATED_PAGES: dict[type[Model], RelatedPage] = {}


def related_page(request: HttpRequest, model: type[Model]) -> RelatedPage | None:
    """That of the model's objects, if there is one that the user may view."""
    page = RELATED_PAGES.get(model)
    return page if page and request.user.has_perm(page.permission) else None


def import_pages(path: list[str], package: str) -> None:
    """Import every module of an `admin` package, which is in `path`: they register their pages."""
    for module in pkgutil.iter_modules(path):
        import_module(f"{package}.{module.name}")


def can_view_history(request: HttpRequest) -> bool:
    """Whether the user sees who did what."""
    return request.user.has_perm("admin.view_logentry")


def require(allowed: bool) -> None:
    """Raises PermissionDenied unless `allowed`."""
    if not allowed:
        raise PermissionDenied


def form_action(
    description: str,
    *permissions: str,
    form: type[forms.Form | forms.ModelForm] = forms.Form,
    explanation: str = "",
    variant: ActionVariant = ActionVariant.DEFAULT,
    atomic: bool = True,
) -> Callable[[Callable[..., HttpResponseBase | str]], Any]:
    """unfold's `action`, in `actions_list` or `actions_detail`, as a page with a form. Its URL ends with the name of
    the method, which is called with the request, the object (None in a list) and the cleaned data: see `form_page`.

    unfold's own dialogs cannot do it: they lose the form when the service refuses what was entered, have no place for
    what is shown once, need scripts, and are not closed by the keyboard.
    """

    def decorate(perform: Callable[..., HttpResponseBase | str]) -> Any:
        url_path = perform.__name__.replace("_", "-")

        @wraps(perform)
        def view(self: ConsoleAdmin, request: HttpRequest, object_id: str | None = None) -> HttpResponseBase:
            obj = None if object_id is None else self.object_or_404(request, object_id)
            context = self.action_context(request, url_path, obj)
            options = context.pop("form_options", {})
            shown = form(submitted(request), initial=context.pop("initial", None), **options)
            return self.form_page(
                request,
                shown,
                partial(perform, self, request, obj),
                atomic=atomic,
                title=description if obj is None else f"{description}: {obj}",
                button=description,
                explanation=f"{explanation} {context.pop('explanation', '')}".strip(),
                variant="danger" if variant is ActionVariant.DANGER else "primary",
                original=obj,
                **context,
            )

        return action(description=description, permissions=permissions, url_path=url_path, variant=variant)(view)

    return decorate


class Unchanged(str):
    """The message of an action that has changed nothing."""


def level_of(message: str) -> int:
    return messages.WARNING if isinstance(message, Unchanged) else messages.SUCCESS


class Secret(NamedTuple):
    """A `text` that is shown once, with a button that copies it."""

    id: str
    label: str
    text: str
    button: str


def submitted(request: HttpRequest) -> QueryDict | None:
    """The data of a form; None while its page is only opened."""
    return request.POST if request.method == "POST" else None


class ConsoleInline(TabularInline):
    """Rows of which a page changes only what was changed on it."""

    formset = edits.EditFormSet

    def get_formset(self, request: HttpRequest, obj: Any = None, **kwargs: Any) -> Any:
        return super().get_formset(request, obj, **{"form": edits.for_edits(self.form), **kwargs})


class ConsoleAdmin(ModelAdmin):
    #: What the rows of the list are, if they are not called like the list.
    counted = ""
    #: The text of links to the page that adds an object, if not "Add" and its name.
    add_label = ""
    #: Fields whose old and new values the History has: neither secrets nor personal data of callers and contacts.
    history_fields: tuple[str, ...] = ()
    #: Columns that a save of a change sets beside the fields that were changed.
    always_saved: tuple[str, ...] = ()
    #: Whether Save opens the list: the page of an object has nothing but the form.
    list_after_save = False
    change_form_before_template = "admin/parts/opened_at.html"
    # unfold has entries of its own for each of these classes of fields.
    formfield_overrides: Any = {
        IntegerField: {"form_class": WholeNumberField},
        BigIntegerField: {"form_class": WholeNumberField},
        DecimalField: {"form_class": DecimalNumberField},
        CharField: {"form_class": TextField},
        models.TextField: {"form_class": TextField},
    }
    checks_class = ModelAdminChecks  # unfold's reads the actions' permissions from a database that may not be migrated

    def history_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> HttpResponse:
        """The History, with the entries about this object (console.admin.history.AboutFilter)."""
        require(can_view_history(request))
        about = f"{self.opts.label_lower}.{unquote(object_id)}"
        return redirect(f"{page_url(LogEntry, 'changelist')}?{urlencode({'about': about})}")

    def construct_change_message(self, request: HttpRequest, form: Any, formsets: Any, add: bool = False) -> Any:
        """Django's, with the old and new values of `history_fields`."""
        message: Any = super().construct_change_message(request, form, formsets, add)
        if form.changed_data and not add:
            labels = message[0]["changed"]["fields"]
            message[0]["changed"]["fields"] = [
                history.with_values(form, name, label) if name in self.history_fields else label
                for name, label in zip(form.changed_data, labels, strict=True)
            ]
        return message

    # --- Changes of an object that others change too -------------------------------------------------------------

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        form = super().get_form(request, obj, change=change, **kwargs)
        return edits.for_edits(form) if change else form

    def changeform_view(self, request: HttpRequest, object_id: str | None = None, *args: Any, **kwargs: Any) -> Any:
        """Locks the row before the form reads it, so that of two submissions the second finds what the first saved."""
        if request.method != "POST" or not object_id:
            return super().changeform_view(request, object_id, *args, **kwargs)
        require(self.has_change_permission(request))
        with transaction.atomic():
            obj = self.get_object(request, unquote(object_id))
            if obj and self.model._base_manager.select_for_update(no_key=True).filter(pk=obj.pk)[:1]:
                return super().changeform_view(request, object_id, *args, **kwargs)
        deleted, verb = self.model(pk=unquote(object_id)), f"deleted this {self.opts.verbose_name}"
        change = edits.last_change_text(deleted, verb, request.POST, LogEntry.is_deletion)
        self.message_user(request, f"Nothing was saved: {change}.", messages.ERROR)
        return redirect(self.url_of(None))

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Save the changed fields only: saving all of them would undo what services have saved since."""
        if not change:
            super().save_model(request, obj, form, change)
            return
        names = [name for name in form.changed_data if not self.opts.get_field(name).many_to_many]
        obj.save(update_fields=[*names, *self.always_saved])

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        super().save_related(request, form, formsets, change)
        for note in [note for each in (form, *formsets) if change for note in each.notes()]:
            self.message_user(request, note, messages.INFO)

    def suggestion_detail(self, obj: Any) -> str:
        """What tells `obj` from others of its name, where it is suggested as one types."""
        return ""

    def page_context(self, request: HttpRequest, obj: Any) -> dict[str, Any]:
        """Context of the page of `obj` in addition to Django's; not of a page for `editing` alone."""
        return {}

    def render_change_form(self, request: HttpRequest, context: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
        if (obj := kwargs.get("obj")) is not None and not context.get("editing"):
            context |= self.page_context(request, obj)
        context["show_save_and_continue"] = False  # Save opens the page of the object, or the list
        return super().render_change_form(request, context, *args, **kwargs)

    def response_post_save_change(self, request: HttpRequest, obj: Any) -> HttpResponse:
        """The page of `obj`, but for `list_after_save`. Django's, a list, would lack a search that was sent by POST."""
        if self.has_view_or_change_permission(request, obj) and not self.list_after_save:
            return redirect(self.url_of(obj))
        return super().response_post_save_change(request, obj)

    response_post_save_add = response_post_save_change

    # --- Actions (form_action) -----------------------------------------------------------------------------------

    def offers(self, request: HttpRequest, url_path: str, obj: Any) -> bool:
        """Whether the page of `obj` has the button of this action. The services refuse it for other objects."""
        return True

    def action_context(self, request: HttpRequest, url_path: str, obj: Any) -> dict[str, Any]:
        """Context of the page of this action in addition to form_action's: `explanation` is added to the action's own,
        `initial` has values of the form, `form_options` further arguments of its class, and `instead` a text, and
        perhaps the `url` and the `label` of a link, in place of a form that cannot be used."""
        return {}

    def get_actions_detail(self, request: HttpRequest, object_id: Any) -> list[UnfoldAction]:
        """unfold's, without the actions that the object in its present state does not have."""
        permitted = super().get_actions_detail(request, object_id)
        obj = self.get_object(request, object_id) if permitted else None
        return [one for one in permitted if obj is not None and self.offers(request, one.path, obj)]

    def object_or_404(self, request: HttpRequest, object_id: str) -> Any:
        if (obj := self.get_object(request, object_id)) is None:
            raise Http404
        return obj

    def url_of(self, obj: Any) -> str:
        """The page of `obj`; the list if that is None."""
        return page_url(self.model, "changelist") if obj is None else page_url(self.model, "change", obj.pk)

    def form_page(
        self,
        request: HttpRequest,
        form: forms.Form | forms.ModelForm,
        perform: Callable[[dict[str, Any]], HttpResponseBase | str],
        *,
        atomic: bool = True,
        **context: Any,
    ) -> HttpResponseBase:
        """The page of `form`, which a GET only shows. A valid submission calls `perform` with the cleaned data: its
        response, or its message on the page of the object `original`, or on the list.

        `perform` runs in a transaction, unless it must not be `atomic`. Its ValueError or ValidationError rolls back
        and is shown in the form; a FieldError at its field, whose name is that of the argument, or the form has it in
        `fields_of_arguments`.
        """
        back_url = self.url_of(context.get("original"))
        if form.is_bound and form.is_valid():
            try:
                with transaction.atomic() if atomic else nullcontext():
                    result = perform(form.cleaned_data)
            except (ValueError, ValidationError) as error:
                argument = error.field if isinstance(error, FieldError) else ""
                name = getattr(form, "fields_of_arguments", {}).get(argument, argument)
                text = " ".join(error.messages) if isinstance(error, ValidationError) else str(error)
                form.add_error(name if name in form.fields else None, text)
            else:
                if isinstance(result, HttpResponseBase):
                    return result
                self.message_user(request, result, level_of(result))
                return redirect(back_url)
        return self.render_page(request, "form.html", form=form, cancel_url=back_url, **context)

    def shown_once_page(
        self, request: HttpRequest, original: Any, *secrets: Secret, title: str, warning: str, **context: Any
    ) -> HttpResponse:
        """The response to a POST, and the only place of these secrets: messages would be stored. `note`: below the
        warning. `back_url`: where its button leads, by default to the page of `original`."""
        context = {"original": original, "secrets": secrets, "title": title, "warning": warning, **context}
        return self.render_page(request, "shown_once.html", **{"back_url": self.url_of(original), **context})

    def render_page(self, request: HttpRequest, template: str, **context: Any) -> HttpResponse:
        """Render an admin template of this model, of its app, or of all."""
        context = {**self.admin_site.each_context(request), "opts": self.opts, **context}
        app = self.opts.app_label
        places = (f"{app}/{self.opts.model_name}/{template}", f"{app}/{template}", f"parts/{template}")
        return TemplateResponse(request, [f"admin/{place}" for place in places], context)


class ConditionFilter(admin.SimpleListFilter):
    """A filter of a list with fixed values; any other value in the URL filters nothing."""

    @property
    def conditions(self) -> dict[str, tuple[str, Q]]:
        """Value → its title, and the condition for the rows that it selects."""
        raise NotImplementedError

    def lookups(self, request: HttpRequest, model_admin: admin.ModelAdmin) -> list[tuple[str, str]]:
        return [(value, title) for value, (title, _) in self.conditions.items()]

    def queryset(self, request: HttpRequest, queryset: QuerySet) -> QuerySet:
        _, condition = self.conditions.get(self.value() or "", ("", Q()))
        return queryset.filter(condition)


class ReadOnlyAdmin(ConsoleAdmin):
    """Rows that nobody adds, changes or deletes by hand, whatever their permissions."""

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    has_add_permission = has_delete_permission = has_change_permission


class CappedPaginator(Paginator):
    """Pages of the first MAX_LISTED rows."""

    @cached_property
    def _capped_count(self) -> int:
        rows: Any = self.object_list
        return rows.order_by()[: MAX_LISTED + 1].count()

    @cached_property
    def count(self) -> int:
        return min(self._capped_count, MAX_LISTED)

    @property
    def is_capped(self) -> bool:
        return self._capped_count > MAX_LISTED


class Selected(NamedTuple):
    """What a filter selects, the URL of the list without it (empty: it cannot be cleared), and the URL and name of each
    choice it leaves."""

    note: str
    clear_url: str
    choices: Sequence[tuple[str, str]] = ()


class IndexedChangeList(DescendingFirstChangeList):
    """Sorts only by the columns in `sortable_by`: Django hides the links of the others, but obeys the URL."""

    model_admin: "LargeTableAdmin"

    def get_ordering_field(self, field_name: Any) -> Any:
        return super().get_ordering_field(field_name) if field_name in (self.sortable_by or ()) else None

    def get_results(self, request: HttpRequest) -> None:
        """Tells the header that all rows are listed, unless the URL selects some, and the footer their order."""
        super().get_results(request)
        self.is_newest_first = self.queryset.query.order_by[0] == "-pk" and ORDER_VAR not in self.params
        if self.params.keys() <= {ORDER_VAR}:
            self.full_result_count = self.result_count

    @property
    def selected(self) -> list[Selected]:
        """What the search, each filter, and the other parameters of the URL select."""
        found = []
        if self.query:
            found.append(Selected(f'Search: "{self.query}"', self.get_query_string(remove=[SEARCH_VAR])))
        names = set(self.get_filters_params())
        for spec in self.filter_specs:
            every, *choices = spec.choices(self)
            text = next((choice["display"] for choice in choices if choice["selected"]), "")
            if text and not every["selected"]:
                clear_url = self.get_query_string(remove=filter(None, spec.expected_parameters()))
                found.append(Selected(f"{capfirst(str(spec.title))}: {text}", clear_url))
            names.difference_update(spec.expected_parameters())
        for name in sorted(names):
            text = f"{capfirst(name.partition('__')[0])}: #{self.params[name][-1]}"
            found.append(Selected(text, self.get_query_string(remove=[name])))
        return found

    def notes(self) -> list[str]:
        """Messages about the limits that the list has reached."""
        which = self.model_admin.newest if self.is_newest_first else "first"
        return [f"Showing the {which} {MAX_LISTED:,}."] if self.paginator.is_capped else []


class LargeTableAdmin(ConsoleAdmin):
    """The base class for tables with millions of rows: never counted in full, sorted by an index or not at all. A query
    that times out leads back to the list of all rows."""

    paginator: type[Paginator] = CappedPaginator
    changelist_class: type[ChangeList] = IndexedChangeList
    show_full_result_count = False
    #: What the rows with the greatest ids are.
    newest = "newest"
    list_per_page = 25
    show_facets = ShowFacets.NEVER  # a URL could ask for a count by each filter
    #: The only lookups that a URL may use.
    lookups_allowed: tuple[str, ...] = ()

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        """Django would allow any lookup on the model's own fields, such as a regular expression on every row."""
        return lookup in self.lookups_allowed

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[ChangeList]:
        return self.changelist_class

    def response_action(self, request: HttpRequest, queryset: QuerySet, *args: Any) -> HttpResponse | None:
        """Refuse "select all" beyond MAX_SELECTED rows: users have not seen them all."""
        across = any(value not in ("", "0") for value in request.POST.getlist("select_across"))
        if across and queryset.order_by()[: MAX_SELECTED + 1].count() > MAX_SELECTED:
            text = f"There are more than {MAX_SELECTED}: select rows one page at a time."
            self.message_user(request, text, messages.WARNING)
            return None
        return super().response_action(request, queryset, *args)

    def search_problem(self, text: str) -> str:
        """Why the list cannot be searched for `text`, which is then not shown again; empty if it can."""
        return f"Enter at most {MAX_SEARCH} characters to search for." if len(text) > MAX_SEARCH else ""

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        if problem := self.search_problem(request.GET.get(SEARCH_VAR, "")):
            self.message_user(request, problem, messages.ERROR)
            query = request.GET.copy()
            del query[SEARCH_VAR]
            return redirect(f"{request.path}?{query.urlencode()}")
        title = capfirst(str(self.opts.verbose_name_plural))
        try:
            response = super().changelist_view(request, {"title": title, **(extra_context or {})})
        except OperationalError:
            if request.method != "GET" or not request.GET:
                raise
            self.message_user(request, "Query timed out: too many rows to sort or filter.", messages.WARNING)
            return redirect(request.path)
        context = getattr(response, "context_data", None) or {}
        for note in context["cl"].notes() if "cl" in context else ():
            messages.info(request, note)
        return response
