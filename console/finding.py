"""Search over the whole console: pages, customers, tokens, ledger entries, requests, numbers, users and sources.

Every kind of result needs the permission of its page, reads a table through an index (names of tokens: among the newest
only), and shows at most MAX_SHOWN results.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from django.contrib.auth.models import User
from django.db import OperationalError
from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils.http import urlencode

from accounts import tokens
from accounts.admin import base
from accounts.admin.ledger_queries import LedgerForm
from accounts.admin.token_list import shown_state
from accounts.models import ApiToken, CreditEntry, Customer
from console import navigation
from core import numbers
from core.admin import page_url
from core.long_lists import EVER
from lookup.search import SLOTS, members
from monitoring.admin.request_queries import RequestLogForm
from monitoring.models import RequestLogEntry, Source
from phonebook.models import ComplaintDay, Contact, NumberRule

MAX_SHOWN = 10
#: Longer than a token without its signature, by whose beginning a token is found.
MAX_LENGTH = 200


@dataclass(frozen=True, slots=True)
class Result:
    title: str
    url: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """Results of one kind. `all_url`: the list of all, if there are more; `timed_out`: the statement timed out."""

    title: str
    results: list[Result]
    has_more: bool = False
    all_url: str = ""
    timed_out: bool = False


def find(request: HttpRequest, text: str) -> list[Group]:
    """What the user of `request` may view and `text` means. Raises tokens.WholeToken."""
    tokens.require_no_token(text)
    search = _Search(request, text.strip())
    return [group for kind in _permitted(request) if (group := _group(kind, search))]


def searchable(request: HttpRequest) -> list[tuple[str, str]]:
    """The kinds of results that the user may view, and what each is found by."""
    return [(kind.title, kind.found_by) for kind in _permitted(request)]


class _Search:
    """The text, and what several kinds of results read from it."""

    def __init__(self, request: HttpRequest, text: str) -> None:
        self.request, self.text = request, text
        try:
            self.number: int | None = int(numbers.parse_typed(text))
        except numbers.InvalidNumber:
            self.number = None

    def entries(self, name: str, size: int) -> list[CreditEntry]:
        """The newest ledger entries whose column `name` is the text."""
        form = LedgerForm({name: self.text, "since": EVER})
        return form.page(CreditEntry.objects.select_related("token"), size=size).rows

    def with_number(self, model: type[Model]) -> QuerySet[Any]:
        """The rows of `model` whose number is the text; none if the text is no number."""
        rows = model._default_manager
        return rows.filter(number=self.number) if self.number else rows.none()


@dataclass(frozen=True, slots=True)
class _Kind:
    """Results of one kind. `found_by`: what to enter. `model`: whose permission they need; None for none. `query`:
    what selects all of them in the list of the model; None if nothing does."""

    title: str
    found_by: str
    model: type[Model] | None
    find: Callable[[_Search], Iterator[Result]]
    query: Callable[[_Search], dict[str, str]] | None = None


def _permitted(request: HttpRequest) -> list[_Kind]:
    def is_permitted(model: type[Model] | None) -> bool:
        return model is None or request.user.has_perm(f"{model._meta.app_label}.view_{model._meta.model_name}")

    return [kind for kind in _KINDS if is_permitted(kind.model)]


def _group(kind: _Kind, search: _Search) -> Group | None:
    try:
        results = list(islice(kind.find(search), MAX_SHOWN + 1))
    except OperationalError:
        return Group(kind.title, [], timed_out=True)
    all_url = ""
    # A number must not be in a URL, even if it is the reference of an invoice.
    if kind.model and kind.query and search.number is None:
        all_url = f"{page_url(kind.model, 'changelist')}?{urlencode(kind.query(search))}"
    return Group(kind.title, results[:MAX_SHOWN], len(results) > MAX_SHOWN, all_url) if results else None


def _result(obj: Model, *details: str, title: str = "") -> Result:
    """The page of `obj`. Details may be empty."""
    return Result(title or str(obj), page_url(type(obj), "change", obj.pk), ", ".join(filter(None, details)))


def _text(search: _Search) -> dict[str, str]:
    return {"q": search.text}


def _pages(search: _Search) -> Iterator[Result]:
    for title, url, section in navigation.pages(search.request):
        if search.text.casefold() in title.casefold():
            yield Result(title, url, section)


def _customers(search: _Search) -> Iterator[Result]:
    found = Customer.objects.filter(base.matching_customers(search.text))
    for customer in found.order_by("name", "pk")[: MAX_SHOWN + 1]:
        yield _result(customer)


def _tokens(search: _Search) -> Iterator[Result]:
    matching, _ = base.matching_tokens(search.text)
    for token in matching.order_by("name", "pk")[: MAX_SHOWN + 1]:
        mode = "test token" if token.is_test else f"{token.credits:,} credits"
        yield _result(token, token.hint, shown_state(token), mode)


def _entries(search: _Search) -> Iterator[Result]:
    """By reference first: callers choose their request ids."""
    for entry in (entry for name in ("reference", "request_id") for entry in search.entries(name, MAX_SHOWN + 1)):
        yield _result(
            entry,
            f"{entry.amount:+,} credits",
            f"{entry.created_at:%Y-%m-%d %H:%M:%S} UTC",
            f"request {entry.request_id}" if entry.request_id else f"reference {entry.reference}",
            title=f"{entry.get_kind_display()} of {entry.token}",
        )


def _ledger_query(search: _Search) -> dict[str, str]:
    name = "reference" if search.entries("reference", 1) else "request_id"
    return {name: search.text, "since": EVER}


def _requests(search: _Search) -> Iterator[Result]:
    """By request id; by number the filtered list."""
    rows = RequestLogEntry.objects.select_related("token")
    by_id = RequestLogForm({"request_id": search.text, "since": EVER})
    for row in by_id.page(rows, size=MAX_SHOWN + 1).rows:
        yield _result(row, str(row.token), f"{row.created_at:%Y-%m-%d %H:%M:%S} UTC", f"status {row.status}")
    if search.number is not None:
        by_number = RequestLogForm({"number": str(search.number), "since": EVER})
        if by_number.page(rows, size=1).rows:
            url = f"{reverse('admin:monitoring_requestlogentry_changelist')}?{urlencode(by_number.url_parameters())}"
            yield Result(f"Requests for {numbers.formatted(str(search.number))}", url)


def _rules(search: _Search) -> Iterator[Result]:
    for rule in search.with_number(NumberRule):
        spam = {True: "spam", False: "not spam", None: ""}[rule.spam]
        yield _result(rule, spam, rule.name, title=f"Rule for {numbers.formatted(str(rule.number))}")


def _contacts(search: _Search) -> Iterator[Result]:
    for contact in search.with_number(Contact):
        title = f"Contact {numbers.formatted(str(contact.number))}"
        yield _result(contact, contact.name, contact.location, title=title)


def _complaints(search: _Search) -> Iterator[Result]:
    for row in search.with_number(ComplaintDay).order_by("-day", "pk"):
        title = f"Complaints about {numbers.formatted(str(row.number))}"
        yield _result(row, row.source, str(row.day), str(row.total), title=title)


def _sources(search: _Search) -> Iterator[Result]:
    slots: dict[str, list[str]] = {}
    for slot in SLOTS:
        for member in members(slot):
            slots.setdefault(member.name, []).append(slot)
    for name, of in slots.items():
        if search.text.casefold() in name.casefold():
            yield Result(name, reverse("admin:monitoring_source_change", args=[name]), ", ".join(of))


def _users(search: _Search) -> Iterator[Result]:
    found = Q(username__icontains=search.text) | Q(email__icontains=search.text)
    for user in User.objects.filter(found).order_by("username")[: MAX_SHOWN + 1]:
        yield _result(user, user.email, "" if user.is_active else "inactive")


_KINDS = (
    _Kind("Pages", "title", None, _pages),
    _Kind("Customers", "name, #id or contact", Customer, _customers, _text),
    _Kind("API tokens", "name, #id or last four characters", ApiToken, _tokens, _text),
    _Kind("Ledger", "request id or reference", CreditEntry, _entries, _ledger_query),
    _Kind("Request log", "request id or number", RequestLogEntry, _requests),
    _Kind("Rules", "number", NumberRule, _rules),
    _Kind("Contacts", "number", Contact, _contacts),
    _Kind("Complaints", "number", ComplaintDay, _complaints),
    _Kind("Sources", "name", Source, _sources),
    _Kind("Users", "name or e-mail address", User, _users),
)
