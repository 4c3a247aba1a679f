"""The pages of the console, for its sidebar and its search, and what each role may do. (`theme` has the user menu.)

To add a page: register a ModelAdmin in a module of the `admin` package of its app (`console.admin` has those of
Django's own models), and add it to `_SIDEBAR`. tests/console/role_table.py says which role may open it.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from django.http import HttpRequest
from django.urls import reverse

_EVERY_ROLE = "viewer support operator auditor"


class _Page(NamedTuple):
    """`icon`: a Material symbol. `name`: that of the URL. `permission`: to open it; `roles`: those that have it."""

    title: str
    icon: str
    name: str
    permission: str = ""
    roles: str = ""


def _list(title: str, icon: str, model: str, roles: str) -> _Page:
    app, _, name = model.partition(".")
    return _Page(title, icon, f"{app}_{name}_changelist", f"{app}.view_{name}", roles)


#: By section.
_SIDEBAR = {
    "": [
        _Page("Dashboard", "monitoring", "index"),
        _list("Alerts", "notifications", "monitoring.incident", _EVERY_ROLE),
    ],
    "Tokens and credits": [
        _list("Customers", "groups", "accounts.customer", _EVERY_ROLE),
        _list("API tokens", "key", "accounts.apitoken", _EVERY_ROLE),
        _list("Ledger", "receipt_long", "accounts.creditentry", "support operator auditor"),
    ],
    "Monitoring": [
        _list("Request log", "list_alt", "monitoring.requestlogentry", "support operator auditor"),
        _list("Sources", "speed", "monitoring.source", _EVERY_ROLE),
        _Page("Test a number", "phone_in_talk", "monitoring_source_test", "monitoring.test_lookup", "support operator"),
        _list("Notices", "mail", "monitoring.notice", "support operator auditor"),
    ],
    "Numbers": [
        _list("Rules", "gavel", "phonebook.numberrule", "support operator auditor"),
        _list("Contacts", "contacts", "phonebook.contact", "operator auditor"),
        _list("Complaints", "report", "phonebook.complaintday", "operator auditor"),
        _list("Imports", "upload_file", "phonebook.importbatch", "operator auditor"),
    ],
    "Operators": [
        _list("Users", "person", "auth.user", "auditor"),
        _list("Roles", "shield_person", "auth.group", "auditor"),
        _list("History", "history", "admin.logentry", "auditor"),
    ],
}

#: The other pages that the search of the console finds.
_OTHERS = [
    _Page("Issue an API token", "", "accounts_apitoken_add", "accounts.add_apitoken", "operator"),
    _Page("Add a rule", "", "phonebook_numberrule_add", "phonebook.add_numberrule", "operator"),
    _Page("Add a contact", "", "phonebook_contact_add", "phonebook.add_contact", "operator"),
    _Page("Invite a user", "", "auth_user_invite", "auth.add_user"),
    _Page("Change password", "", "password_change"),
    _Page("Two-factor authentication", "", "second_factor"),
]

#: By the roles that have them, the permissions to do something on these pages.
_ACTIONS = {
    "support operator": ("accounts.top_up_apitoken", "accounts.refund_creditentry"),
    "operator": (
        *(f"accounts.{action}_apitoken" for action in ("change", "adjust", "transfer", "rotate", "revoke")),
        *(f"accounts.{action}_customer" for action in ("add", "change", "delete")),
        *(f"phonebook.{action}_numberrule" for action in ("change", "delete")),
        *(f"phonebook.{action}_contact" for action in ("change", "delete")),
        *(f"phonebook.{action}_complaintday" for action in ("add", "change", "delete")),
        *("accounts.give_any_credits", "monitoring.change_notice"),
        *("monitoring.check_source", "monitoring.pause_source"),
    ),
    "operator auditor": ("accounts.export_creditentry",),
}


def permissions_of(role: str) -> set[str]:
    """The permissions that this version gives to a role."""
    pages = [page for section in (*_SIDEBAR.values(), _OTHERS) for page in section]
    granted = {page.permission for page in pages if role in page.roles.split()}
    return granted.union(*(names for roles, names in _ACTIONS.items() if role in roles.split()))


def of_user(request: HttpRequest) -> Iterator[tuple[str, str, str]]:
    """Title, URL and section of every page that this operator may open without choosing an object first."""
    for section, pages in (*_SIDEBAR.items(), ("", _OTHERS)):
        for page in _permitted(request, pages):
            yield page.title, reverse(f"admin:{page.name}"), section


def sidebar(request: HttpRequest) -> list[dict[str, Any]]:
    """Unfold's SIDEBAR navigation: the pages that this operator may view. Unfold's own rule for the current page marks
    two if the path of one begins with the other's."""
    links = {page.name: reverse(f"admin:{page.name}") for pages in _SIDEBAR.values() for page in pages}
    containing = [link for link in links.values() if request.path.startswith(link) and link != links["index"]]
    current = max(containing, key=len, default=request.path)
    return [
        {
            "title": section,
            "separator": bool(section),
            "items": [
                {"title": page.title, "icon": page.icon, "link": link, "active": link == current}
                for page in _permitted(request, pages)
                for link in [links[page.name]]
            ],
        }
        for section, pages in _SIDEBAR.items()
    ]


def _permitted(request: HttpRequest, pages: list[_Page]) -> list[_Page]:
    return [page for page in pages if not page.permission or request.user.has_perm(page.permission)]
