"""Search over the whole console: pages, customers, tokens, ledger entries, requests, numbers, users and sources.

Every kind of result needs the permission of its page, reads a table through an index (names of tokens: among the newest
only), and shows at most MAX_SHOWN results.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

from django.contrib.auth.models import User
from django.db import OperationalError
from django.db.models import Max, Q
from django.http import HttpRequest
from django.urls import reverse
from django.utils.http import urlencode

from accounts import tokens
from accounts.admin import base
from accounts.admin.ledger_queries import LEDGER
from accounts.admin.token_list import shown_state
from accounts.models import CreditEntry, Customer, CustomerContact
from callerid_project.console import navigation
from core.long_lists import EVER
from lookup import numbers
from lookup.admin.request_queries import REQUESTS
from lookup.models import ComplaintDay, Contact, NumberRule, RequestLogEntry
from lookup.search import SLOTS, members

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
    search = _Search(text.strip())
    return [group for kind in _KINDS if (group := _group(request, kind, search))]


class _Search:
    """The text, and what several kinds of results read from it."""

    def __init__(self, text: str) -> None:
        self.text = text
        try:
            self.number: int | None = int(numbers.parse_typed(text))
        except numbers.InvalidNumber:
            self.number = None

    def entries(self, name: str, size: int) -> list[CreditEntry]:
        """The newest ledger entries whose column `name` is the text."""
        selection = LEDGER.select({name: self.text, "since": EVER})
        return selection.page(CreditEntry.objects.select_related("token"), size=size).rows


@dataclass(frozen=True, slots=True)
class _Kind:
    """`found_by`: what to enter. `permission`: what the page of a result needs. `list_page`: the name of the URL of a
    list, and `query` what selects all results there."""

    title: str
    found_by: str
    permission: str | None
    find: Callable[[HttpRequest, _Search], Iterator[Result]]
    list_page: str = ""
    query: Callable[[_Search], dict[str, str]] = lambda search: {"q": search.text}


def _group(request: HttpRequest, kind: _Kind, search: _Search) -> Group | None:
    if kind.permission is not None and not request.user.has_perm(kind.permission):
        return None
    try:
        results = list(islice(kind.find(request, search), MAX_SHOWN + 1))
    except OperationalError:
        return Group(kind.title, [], timed_out=True)
    has_more = len(results) > MAX_SHOWN
    # A number must not be in a URL, even if it is the reference of an invoice.
    all_url = ""
    if kind.list_page and search.number is None:
        all_url = f"{reverse(f'admin:{kind.list_page}')}?{urlencode(kind.query(search))}"
    return Group(kind.title, results[:MAX_SHOWN], has_more, all_url) if results else None


def _pages(request: HttpRequest, search: _Search) -> Iterator[Result]:
    for title, url, section in navigation.pages(request):
        if search.text.casefold() in title.casefold():
            yield Result(title, url, section)


def _tokens(request: HttpRequest, search: _Search) -> Iterator[Result]:
    matching, _ = base.matching_tokens(search.text)
    for token in matching.order_by("name", "pk")[: MAX_SHOWN + 1]:
        mode = "test token" if token.is_test else f"{token.credits:,} credits"
        detail = ", ".join(filter(None, [token.hint, shown_state(token), mode]))
        yield Result(str(token), reverse("admin:accounts_apitoken_change", args=[token.pk]), detail)


def _customers(request: HttpRequest, search: _Search) -> Iterator[Result]:
    """By id; by name and contact among the newest."""
    text = search.text
    condition = Q(pk=base.id_in(text))
    if not text.startswith("#"):
        floor_id = (Customer.objects.aggregate(newest=Max("pk"))["newest"] or 0) - base.MAX_SCANNED
        contacts = CustomerContact.objects.filter(email__icontains=text, customer_id__gt=floor_id)
        condition |= Q(pk__gt=floor_id) & (Q(name__icontains=text) | Q(pk__in=contacts.values("customer")))
    for customer in Customer.objects.filter(condition).order_by("name", "pk")[: MAX_SHOWN + 1]:
        yield Result(str(customer), reverse("admin:accounts_customer_change", args=[customer.pk]))


def _entries(request: HttpRequest, search: _Search) -> Iterator[Result]:
    """By reference first: callers choose their request ids."""
    for entry in (entry for name in ("reference", "request_id") for entry in search.entries(name, MAX_SHOWN + 1)):
        named = f"request {entry.request_id}" if entry.request_id else f"reference {entry.reference}"
        yield Result(
            f"{entry.get_kind_display()} of {entry.token}",
            reverse("admin:accounts_creditentry_change", args=[entry.pk]),
            f"{entry.amount:+,} credits, {entry.created_at:%Y-%m-%d %H:%M:%S} UTC, {named}",
        )


def _ledger_query(search: _Search) -> dict[str, str]:
    name = "reference" if search.entries("reference", 1) else "request_id"
    return {name: search.text, "since": EVER}


def _requests(request: HttpRequest, search: _Search) -> Iterator[Result]:
    """By request id; by number the filtered list."""
    rows = RequestLogEntry.objects.select_related("token")
    for row in REQUESTS.select({"request_id": search.text, "since": EVER}).page(rows, size=MAX_SHOWN + 1).rows:
        detail = f"{row.token}, {row.created_at:%Y-%m-%d %H:%M:%S} UTC, status {row.status}"
        yield Result(str(row), reverse("admin:lookup_requestlogentry_change", args=[row.pk]), detail)
    if search.number is not None:
        by_number = REQUESTS.select({"number": str(search.number), "since": EVER})
        if by_number.page(rows, size=1).rows:
            url = f"{reverse('admin:lookup_requestlogentry_changelist')}?{urlencode(by_number.form.url_parameters())}"
            yield Result(f"Requests for {numbers.formatted(str(search.number))}", url)


def _rules(request: HttpRequest, search: _Search) -> Iterator[Result]:
    for rule in NumberRule.objects.filter(number=search.number) if search.number else ():
        spam = {True: "spam", False: "not spam", None: ""}[rule.spam]
        url = reverse("admin:lookup_numberrule_change", args=[rule.pk])
        yield Result(f"Rule for {numbers.formatted(str(rule.number))}", url, ", ".join(filter(None, [spam, rule.name])))


def _contacts(request: HttpRequest, search: _Search) -> Iterator[Result]:
    for contact in Contact.objects.filter(number=search.number) if search.number else ():
        url = reverse("admin:lookup_contact_change", args=[contact.pk])
        yield Result(
            f"Contact {numbers.formatted(str(contact.number))}",
            url,
            ", ".join(filter(None, [contact.name, contact.location])),
        )


def _complaints(request: HttpRequest, search: _Search) -> Iterator[Result]:
    for row in ComplaintDay.objects.filter(number=search.number).order_by("-day", "pk") if search.number else ():
        url = reverse("admin:lookup_complaintday_change", args=[row.pk])
        yield Result(
            f"Complaints about {numbers.formatted(str(row.number))}", url, f"{row.source}, {row.day}, {row.total}"
        )


def _users(request: HttpRequest, search: _Search) -> Iterator[Result]:
    found = Q(username__icontains=search.text) | Q(email__icontains=search.text)
    for user in User.objects.filter(found).order_by("username")[: MAX_SHOWN + 1]:
        detail = ", ".join(filter(None, [user.email, "" if user.is_active else "inactive"]))
        yield Result(user.username, reverse("admin:auth_user_change", args=[user.pk]), detail)


def _sources(request: HttpRequest, search: _Search) -> Iterator[Result]:
    slots: dict[str, list[str]] = {}
    for slot in SLOTS:
        for member in members(slot):
            slots.setdefault(member.name, []).append(slot)
    for name, of in slots.items():
        if search.text.casefold() in name.casefold():
            yield Result(name, reverse("admin:lookup_usage_change", args=[name]), ", ".join(of))


_KINDS = (
    _Kind("Pages", "title", None, _pages),
    _Kind(
        "Customers",
        "name, #id or contact's e-mail address",
        "accounts.view_customer",
        _customers,
        "accounts_customer_changelist",
    ),
    _Kind(
        "API tokens",
        "name, #id or last four characters",
        "accounts.view_apitoken",
        _tokens,
        "accounts_apitoken_changelist",
    ),
    _Kind(
        "Ledger",
        "request id or reference",
        "accounts.view_creditentry",
        _entries,
        "accounts_creditentry_changelist",
        _ledger_query,
    ),
    _Kind("Request log", "request id or number", "lookup.view_requestlogentry", _requests),
    _Kind("Rules", "number", "lookup.view_numberrule", _rules),
    _Kind("Contacts", "number", "lookup.view_contact", _contacts),
    _Kind("Complaints", "number", "lookup.view_complaintday", _complaints),
    _Kind("Sources", "name", "lookup.view_usage", _sources),
    _Kind("Users", "name or e-mail address", "auth.view_user", _users),
)


def searchable(request: HttpRequest) -> list[tuple[str, str]]:
    """The kinds of results that the user may view, and what each is found by."""
    return [
        (kind.title, kind.found_by)
        for kind in _KINDS
        if kind.permission is None or request.user.has_perm(kind.permission)
    ]
