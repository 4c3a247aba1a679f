"""Search over the whole console: pages, actions, customers, tokens, ledger entries, requests, numbers and more.

The search page and the palette (find.js), which is on every page, send their text here.
Every kind of result needs the permission of its page, and shows at most MAX_SHOWN results. Customers, tokens and users
are found by the search of their own lists; the names of contacts are read until the statement times out; the other
kinds read a table through an index.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from django import forms
from django.apps import apps
from django.contrib import admin
from django.contrib.admin.views.main import SEARCH_VAR
from django.contrib.auth.models import User
from django.core.validators import MaxLengthValidator
from django.db import OperationalError
from django.db.models import Case, F, Model, Prefetch, When, prefetch_related_objects
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.http import urlencode
from django.utils.module_loading import import_string
from unfold.widgets import UnfoldAdminTextInputWidget, UnfoldBooleanWidget

from accounts import tokens
from accounts.admin.ledger_queries import LedgerForm
from accounts.admin.token_list import details, details_and_customer
from accounts.models import JWT_PREFIX, ApiToken, CreditEntry, Customer
from console import pages
from core import numbers
from core.admin import MAX_SEARCH, submitted
from core.cells import page_url
from core.console_search import KINDS, MAX_SHOWN, Kind, Result, Search
from core.forms import country_code_help
from lookup import source_actions
from monitoring.models import Source
from phonebook import rules
from phonebook.admin.number_admin import number_pages, number_prefix
from phonebook.contacts import named
from phonebook.models import ComplaintDay, Contact

#: Tokens under a customer.
MAX_UNDER = 3
#: Characters of a part of a contact's name.
MIN_NAME = 3


@dataclass(frozen=True, slots=True)
class Group:
    """Results of one kind. `timed_out`: the statement timed out."""

    title: str
    results: list[Result]
    has_more: bool = False
    timed_out: bool = False


class FindForm(forms.Form):
    q = forms.CharField(
        label="Search the console",
        # Not max_length: browsers would cut a pasted token, which then could not be recognized and refused.
        validators=[MaxLengthValidator(MAX_SEARCH)],
        widget=UnfoldAdminTextInputWidget(
            attrs={"type": "search", "autocomplete": "off", "autocapitalize": "none", "spellcheck": "false"}
        ),
        error_messages={"required": "Enter text to search for."},
    )

    def clean(self) -> None:
        """A whole token is refused whatever its length, and not shown again."""
        try:
            tokens.require_no_token(self.data.get("q", ""))
        except tokens.WholeToken as error:
            self.data = {}
            self.errors.pop("q", None)
            self.add_error("q", str(error))


def view(request: HttpRequest) -> HttpResponse:
    """The text may be a number: it is sent by POST and shown in the response only. On the search page a single result
    opens at once; the palette gets its results as HTML."""
    form, groups = FindForm(submitted(request)), None
    in_palette = "palette" in request.POST
    kinds = [kind for kind in KINDS if not kind.model or _admin(kind.model).has_view_permission(request)]
    if form.is_bound and form.is_valid():
        search = _search(request, form.cleaned_data["q"], is_typed=in_palette)
        groups = [group for kind in kinds if (group := _group(kind, search))]
        groups.sort(key=lambda group: not any(_has_exact_title(result, search.text) for result in group.results[:1]))
        results = [one for group in groups for result in group.results for one in (result, *result.under)]
        if len(results) == 1 and not in_palette and not any(group.timed_out for group in groups):
            return redirect(results[0].url)
    context = {
        "form": form,
        "groups": groups,
        "total": sum(1 + len(result.under) for group in groups or () for result in group.results),
        "is_token_beginning": form.data.get("q", "").startswith(JWT_PREFIX),
        "country_code_help": country_code_help(form.data.get("q", "")),
        "has_more": any(group.has_more for group in groups or ()),
        "searchable": [(kind.title, kind.found_by) for kind in kinds],
        "title": "Search",
        "slash": UnfoldBooleanWidget(attrs={"id": "find-slash"}).render("slash", False),
    }
    if in_palette:
        if groups is not None and search.number is not None:
            context |= {"number": numbers.formatted(str(search.number)), **number_pages(request)}
            context["total"] += len(context["number_pages"])
        return TemplateResponse(request, "admin/palette.html", context)
    return TemplateResponse(request, "admin/find.html", {**admin.site.each_context(request), **context})


@dataclass(frozen=True, slots=True)
class _Search(Search):
    """`shown`: the ids of the tokens that are already in the results."""

    shown: set[int] = field(default_factory=set)


def _search(request: HttpRequest, text: str, *, is_typed: bool) -> _Search:
    try:
        number: int | None = int(numbers.parse_typed(text))
    except numbers.InvalidNumber:
        number = None
    return _Search(request, text, number, is_typed)


def _admin(model: str) -> Any:
    return admin.site.get_model_admin(apps.get_model(model))


def _group(kind: Kind, search: _Search) -> Group | None:
    """None if nothing was found."""
    try:
        results = list(islice(import_string(kind.find)(search), MAX_SHOWN + 1))
    except OperationalError:
        return Group(kind.title, [], timed_out=True)
    has_more = len(results) > MAX_SHOWN
    results = sorted(results[:MAX_SHOWN], key=lambda result: not _has_exact_title(result, search.text))
    return Group(kind.title, results, has_more) if results else None


def _has_exact_title(result: Result, text: str) -> bool:
    """Whether its title, without the id, is the text."""
    return result.title.partition(" (#")[0].casefold() == text.casefold()


def _result(obj: Model, *details: str, title: str = "") -> Result:
    """The page of `obj`. Details may be empty."""
    return Result(title or str(obj), page_url(type(obj), "change", obj.pk), ", ".join(filter(None, details)))


def _rows(model: type[Any], search: _Search) -> list[Any]:
    """What the list of `model` finds."""
    request = HttpRequest()
    request.user, request.GET = search.request.user, QueryDict(urlencode({SEARCH_VAR: search.text}))
    page: Any = admin.site.get_model_admin(model)
    return list(page.get_changelist_instance(request).result_list)


def customers(search: _Search) -> Iterable[Result]:
    """With their tokens: those with the text in their name first, then the last charged. A token with exactly this
    name is listed by itself, unless its customer has the name too."""
    found = _rows(Customer, search)[: MAX_SHOWN + 1]
    if admin.site.get_model_admin(ApiToken).has_view_permission(search.request):
        has_text = Case(When(name__icontains=search.text, then=0), default=1)
        last_charged = F("last_charged_at").desc(nulls_last=True)
        tokens_first = ApiToken.objects.order_by(has_text, last_charged, "-pk")[:MAX_UNDER]
        prefetch_related_objects(found, Prefetch("tokens", tokens_first, "under"))
    for place, customer in enumerate(found):
        result, under = _result(customer), getattr(customer, "under", ())
        if not _has_exact_title(result, search.text):
            under = [token for token in under if token.name.casefold() != search.text.casefold()]
        if place < MAX_SHOWN:  # one more says only that there are more
            search.shown.update(token.pk for token in under)
        yield replace(result, under=tuple(_result(token, *details(token)) for token in under))


def api_tokens(search: _Search) -> Iterable[Result]:
    """Those that are not shown under their customer."""
    for token in _rows(ApiToken, search):
        if token.pk not in search.shown:
            yield _result(token, *details_and_customer(token))


def users(search: _Search) -> Iterable[Result]:
    for user in _rows(User, search):
        yield _result(user, user.email, "" if user.is_active else "inactive")


def complaints(search: _Search) -> Iterable[Result]:
    if search.number is not None:
        title = f"Complaints about {numbers.formatted(str(search.number))}"
        for row in ComplaintDay.objects.filter(number=search.number).order_by("-pk"):
            yield _result(row, row.source, str(row.day), str(row.total), title=title)


def contacts(search: _Search) -> Iterable[Result]:
    """By number, or on the search page by a part of the name: every row is read for that."""
    if search.number is not None:
        rows = Contact.objects.filter(number=search.number)
    elif search.is_typed or number_prefix(search.text) or len(search.text) < MIN_NAME:
        return
    else:
        rows = named(search.text, Contact.objects.all())[: MAX_SHOWN + 1]
    for row in rows:
        yield _result(row, row.name, row.location, title=f"Contact {numbers.formatted(str(row.number))}")


def sidebar_pages(search: _Search) -> Iterable[Result]:
    """Those with this name that the user may open."""
    for section, listed in pages.sections().items():
        for page in _called(search, listed):
            yield Result(page.title, page.url, section)


def actions(search: _Search) -> Iterable[Result]:
    """Those with this name that the user may perform; those on a row whose name follows, such as "pause twilio"."""
    for action in _called(search, pages.actions()):
        yield Result(action.title, action.url)
    for action, rest in _row_actions(search):
        page = _admin(action.name.removesuffix("_changelist").replace("_", "."))
        if page.model is Source:
            keys = [key for key in source_actions.configured() if rest.casefold() in key][:MAX_UNDER]
            rows = [page.get_object(search.request, key) for key in keys]
        else:
            rows = _rows(page.model, replace(search, text=rest))
        for row in rows[:MAX_UNDER]:
            if page.offers(search.request, action.row_action.replace("_", "-"), row):
                about = ", ".join(details_and_customer(row)) if page.model is ApiToken else ""
                yield Result(f"{action.title}: {row}", page_url(page.model, action.row_action, row.pk), about)


def _called(search: Search, listed: list[pages.Page]) -> Iterator[pages.Page]:
    """Of these pages, those that the user may open and with each word of the text in the title or the synonyms."""
    for page in pages.permitted(search.request, listed):
        names = f"{page.title} {page.synonyms}".casefold()
        if all(word in names for word in search.text.casefold().split()):
            yield page


def _row_actions(search: Search) -> Iterator[tuple[pages.Page, str]]:
    """The actions on a row with which the text begins, and the other words."""
    words = search.text.split()
    for page in pages.permitted(search.request, [page for page in pages.actions() if page.row_action]):
        for count in range(len(words) - 1, 0, -1):
            names = f"{page.title} {page.synonyms}".casefold().split()
            if {word.casefold() for word in words[:count]} <= {*names}:
                yield page, " ".join(words[count:])
                break


def entries(search: _Search) -> Iterable[Result]:
    """By reference first: callers choose their request ids."""
    rows = CreditEntry.objects.select_related("token")
    for name in ("reference", "request_id"):
        for entry in LedgerForm({name: search.text}).page(rows, size=MAX_SHOWN + 1).rows:
            yield _result(
                entry,
                f"{entry.amount:+,} credits",
                f"{entry.created_at:%Y-%m-%d %H:%M:%S} UTC",
                f"request {entry.request_id}" if entry.request_id else f"reference {entry.reference}",
                title=f"{entry.get_kind_display()} of {entry.token}",
            )


def sources(search: _Search) -> Iterable[Result]:
    for name in source_actions.configured():
        if search.text.casefold() in name.casefold():
            yield Result(name, reverse("admin:monitoring_source_change", args=[name]))


def number_rules(search: _Search) -> Iterable[Result]:
    """The rule that applies to the number, or to a prefix with its plus, then those that it overrides."""
    digits = number_prefix(search.text) if search.text.startswith("+") else search.number
    if digits is not None:
        for rule in rules.applying(digits):
            spam = {True: "spam", False: "not spam", None: ""}[rule.spam]
            yield _result(rule, spam, rule.name, title=f"Rule for {rules.shown(rule)}")
