"""Search over the whole console: pages, actions, customers, tokens, ledger entries, requests, numbers and more.

The search page and the palette (find.js), which is on every page, send their text here.
Every kind of result needs the permission of its page, and shows at most MAX_SHOWN results. Customers, tokens and users
are found by the search of their own lists; the names of contacts are read until the statement times out; the other
kinds read a table through an index.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
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
from unfold.widgets import UnfoldAdminTextInputWidget, UnfoldBooleanWidget

from accounts import tokens
from accounts.admin.ledger_queries import LedgerForm
from accounts.admin.token_list import details, details_and_customer
from accounts.models import JWT_PREFIX, ApiToken, CreditEntry, Customer
from console import pages
from core import numbers
from core.admin import MAX_SEARCH, submitted
from core.cells import page_url
from core.forms import country_code_help
from lookup import source_actions
from monitoring.admin.requests import RequestLogForm
from monitoring.models import RequestLogEntry, Source
from phonebook import rules
from phonebook.admin.base import number_pages, number_prefix
from phonebook.contacts import named
from phonebook.models import ComplaintDay, Contact, NumberRule

MAX_SHOWN = 10
#: Tokens under a customer.
MAX_UNDER = 3
#: Characters of a part of a contact's name.
MIN_NAME = 3


@dataclass(frozen=True, slots=True)
class Result:
    """`under`: results that belong to it."""

    title: str
    url: str
    detail: str = ""
    under: tuple["Result", ...] = ()


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
    kinds = [kind for kind in _KINDS if kind.is_permitted(request)]
    if form.is_bound and form.is_valid():
        search = _Search(request, form.cleaned_data["q"], is_typed=in_palette)
        groups = [group for kind in kinds if (group := kind.group(search))]
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


class _Search:
    """The text, and the number that it may be. `is_typed`: while somebody types, so it is searched again and again.
    `shown`: the ids of the tokens that are already in the results."""

    def __init__(self, request: HttpRequest, text: str, *, is_typed: bool) -> None:
        self.request, self.text, self.is_typed = request, text, is_typed
        self.shown: set[int] = set()
        try:
            self.number: int | None = int(numbers.parse_typed(text))
        except numbers.InvalidNumber:
            self.number = None


@dataclass(frozen=True, slots=True)
class _Kind:
    """Results of one kind. `found_by`: what to enter. `model`: whose permission they need; None for none."""

    title: str
    found_by: str
    model: type[Model] | None
    find: Callable[[_Search], Iterable[Result]]

    def is_permitted(self, request: HttpRequest) -> bool:
        return self.model is None or admin.site.get_model_admin(self.model).has_view_permission(request)

    def group(self, search: _Search) -> Group | None:
        """None if nothing was found."""
        try:
            results = list(islice(self.find(search), MAX_SHOWN + 1))
        except OperationalError:
            return Group(self.title, [], timed_out=True)
        has_more = len(results) > MAX_SHOWN
        results = sorted(results[:MAX_SHOWN], key=lambda result: not _has_exact_title(result, search.text))
        return Group(self.title, results, has_more) if results else None


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


def _customers(search: _Search) -> Iterable[Result]:
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


def _tokens(search: _Search) -> Iterable[Result]:
    """Those that are not shown under their customer."""
    for token in _rows(ApiToken, search):
        if token.pk not in search.shown:
            yield _result(token, *details_and_customer(token))


def _users(search: _Search) -> Iterable[Result]:
    for user in _rows(User, search):
        yield _result(user, user.email, "" if user.is_active else "inactive")


def _numbered(title: str, model: type[Any], name: str, details: Callable[[Any], tuple[str, ...]]) -> _Kind:
    """The rows of `model` with the number; `name`: what one of them is."""

    def find(search: _Search) -> Iterable[Result]:
        if search.number is not None:
            title = f"{name} {numbers.formatted(str(search.number))}"
            for row in model.objects.filter(number=search.number).order_by("-pk"):
                yield _result(row, *details(row), title=title)

    return _Kind(title, "number", model, find)


def _contacts(search: _Search) -> Iterable[Result]:
    """By number, or on the search page by a part of the name: every row is read for that."""
    if search.number is not None:
        rows = Contact.objects.filter(number=search.number)
    elif search.is_typed or number_prefix(search.text) or len(search.text) < MIN_NAME:
        return
    else:
        rows = named(search.text, Contact.objects.all())[: MAX_SHOWN + 1]
    for row in rows:
        yield _result(row, row.name, row.location, title=f"Contact {numbers.formatted(str(row.number))}")


def _pages(search: _Search) -> Iterable[Result]:
    return (Result(*page) for page in pages.found_by(search.text, search.request))


def _actions(search: _Search) -> Iterable[Result]:
    """Those with this name; those on a row whose name follows, such as "pause twilio"."""
    for action in pages.actions_found_by(search.text, search.request):
        yield Result(*action)
    for title, model, name, rest in pages.row_actions_found_by(search.text, search.request):
        page: Any = admin.site.get_model_admin(apps.get_model(model))
        if page.model is Source:
            keys = [key for key in source_actions.configured() if rest.casefold() in key][:MAX_UNDER]
            rows = [page.get_object(search.request, key) for key in keys]
        else:
            rows = _rows(page.model, _Search(search.request, rest, is_typed=search.is_typed))
        for row in rows[:MAX_UNDER]:
            if page.offers(search.request, name.replace("_", "-"), row):
                about = ", ".join(details_and_customer(row)) if page.model is ApiToken else ""
                yield Result(f"{title}: {row}", page_url(page.model, name, row.pk), about)


def _entries(search: _Search) -> Iterable[Result]:
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


def _requests(search: _Search) -> Iterable[Result]:
    """By request id; by number the filtered list."""
    rows = RequestLogEntry.objects.select_related("token")
    for row in RequestLogForm({"request_id": search.text}).page(rows, size=MAX_SHOWN + 1).rows:
        yield _result(row, str(row.token), f"{row.created_at:%Y-%m-%d %H:%M:%S} UTC", f"status {row.status}")
    if search.number is not None and not search.is_typed:
        by_number = RequestLogForm({"number": f"+{search.number}"})
        if by_number.page(rows, size=1).rows:
            url = f"{page_url(RequestLogEntry, 'changelist')}?{urlencode(by_number.url_parameters())}"
            yield Result(f"Requests for {numbers.formatted(str(search.number))}", url)


def _sources(search: _Search) -> Iterable[Result]:
    for name in source_actions.configured():
        if search.text.casefold() in name.casefold():
            yield Result(name, reverse("admin:monitoring_source_change", args=[name]))


def _rules(search: _Search) -> Iterable[Result]:
    """The rule that applies to the number, or to a prefix with its plus, then those that it overrides."""
    digits = number_prefix(search.text) if search.text.startswith("+") else search.number
    if digits is not None:
        for rule in rules.applying(digits):
            spam = {True: "spam", False: "not spam", None: ""}[rule.spam]
            yield _result(rule, spam, rule.name, title=f"Rule for {rules.shown(rule)}")


_KINDS = (
    _Kind("Customers", "name, #id, contact, or a token's name or last four characters", Customer, _customers),
    _Kind("API tokens", "name, customer, note, contact, #id or last four characters", ApiToken, _tokens),
    _Kind("Pages", "title", None, _pages),
    _Kind("Actions", "what you want to do, such as top up, 2FA or block", None, _actions),
    _Kind("Ledger", "request id or reference", CreditEntry, _entries),
    _Kind("Request log", "request id or number", RequestLogEntry, _requests),
    _Kind("Rules", "number, or prefix with +", NumberRule, _rules),
    _Kind("Contacts", "number or part of the name", Contact, _contacts),
    _numbered("Complaints", ComplaintDay, "Complaints about", lambda row: (row.source, str(row.day), str(row.total))),
    _Kind("Sources", "name", Source, _sources),
    _Kind("Users", "name or e-mail address", User, _users),
)
