"""The console's sidebar. (The user menu is in `theme`.)

To add a page: register a ModelAdmin in the `admin` package of its app (or in `callerid_project.console` for models of
Django's own), and add it to `_SIDEBAR`. tests/callerid_project/console/role_table.py says which role may open it.
"""

from collections.abc import Iterator
from typing import Any

from django.http import HttpRequest
from django.urls import reverse

#: Section → (title, Material symbol, URL name, permission to view the page).
_SIDEBAR: dict[str, list[tuple[str, str, str, str | None]]] = {
    "": [
        ("Dashboard", "monitoring", "index", None),
        ("Alerts", "notifications", "accounts_incident_changelist", "accounts.view_incident"),
    ],
    "Tokens and credits": [
        ("Customers", "groups", "accounts_customer_changelist", "accounts.view_customer"),
        ("API tokens", "key", "accounts_apitoken_changelist", "accounts.view_apitoken"),
        ("Ledger", "receipt_long", "accounts_creditentry_changelist", "accounts.view_creditentry"),
        ("Notices", "mail", "accounts_notice_changelist", "accounts.view_notice"),
    ],
    "Numbers": [
        ("Sources", "speed", "lookup_usage_changelist", "lookup.view_usage"),
        ("Rules", "gavel", "lookup_numberrule_changelist", "lookup.view_numberrule"),
        ("Contacts", "contacts", "lookup_contact_changelist", "lookup.view_contact"),
        ("Complaints", "report", "lookup_complaintday_changelist", "lookup.view_complaintday"),
    ],
    "Operators": [
        ("Users", "person", "auth_user_changelist", "auth.view_user"),
        ("Roles", "shield_person", "auth_group_changelist", "auth.view_group"),
        ("History", "history", "admin_logentry_changelist", "admin.view_logentry"),
    ],
}


#: The other pages that the search of the console finds: (title, URL name, permission).
_OTHERS: list[tuple[str, str, str | None]] = [
    ("Issue an API token", "accounts_apitoken_add", "accounts.add_apitoken"),
    ("Add a rule", "lookup_numberrule_add", "lookup.add_numberrule"),
    ("Add a contact", "lookup_contact_add", "lookup.add_contact"),
    ("Invitations", "auth_user_invitations", "auth.view_user"),
    ("Invite a user", "auth_user_invite", "auth.add_user"),
    ("Change password", "password_change", None),
    ("Two-factor authentication", "second_factor", None),
]


def pages(request: HttpRequest) -> Iterator[tuple[str, str, str]]:
    """Title, URL and section of every page that this operator may open without choosing an object first."""
    for section in sidebar(request):
        for item in section["items"]:
            yield item["title"], item["link"], section["title"]
    for title, name, permission in _OTHERS:
        if permission is None or request.user.has_perm(permission):
            yield title, reverse(f"admin:{name}"), ""


def sidebar(request: HttpRequest) -> list[dict[str, Any]]:
    """Unfold's SIDEBAR navigation: the pages that this operator may view."""
    sections = []
    for section, pages in _SIDEBAR.items():
        items = [
            {"title": title, "icon": icon, "link": reverse(f"admin:{name}")}
            for title, icon, name, permission in pages
            if permission is None or request.user.has_perm(permission)
        ]
        if items:
            sections.append({"title": section, "separator": bool(section), "items": items})
    return sections
