"""The console's sidebar. (The user menu is in `theme`.)

To add a page: register a ModelAdmin in the `admin` package of its app (`console.admin` has those of Django's own
models), and add it to `_SIDEBAR`. tests/console/role_table.py says which role may open it.
"""

from collections.abc import Iterator
from typing import Any

from django.http import HttpRequest
from django.urls import reverse

#: Section → (title, Material symbol, URL name, permission to view the page).
_SIDEBAR: dict[str, list[tuple[str, str, str, str | None]]] = {
    "": [
        ("Dashboard", "monitoring", "index", None),
        ("Alerts", "notifications", "monitoring_incident_changelist", "monitoring.view_incident"),
    ],
    "Tokens and credits": [
        ("Customers", "groups", "accounts_customer_changelist", "accounts.view_customer"),
        ("API tokens", "key", "accounts_apitoken_changelist", "accounts.view_apitoken"),
        ("Ledger", "receipt_long", "accounts_creditentry_changelist", "accounts.view_creditentry"),
    ],
    "Monitoring": [
        ("Request log", "list_alt", "monitoring_requestlogentry_changelist", "monitoring.view_requestlogentry"),
        ("Sources", "speed", "monitoring_source_changelist", "monitoring.view_source"),
        ("Test a number", "phone_in_talk", "monitoring_source_test", "monitoring.test_lookup"),
        ("Notices", "mail", "monitoring_notice_changelist", "monitoring.view_notice"),
    ],
    "Numbers": [
        ("Rules", "gavel", "phonebook_numberrule_changelist", "phonebook.view_numberrule"),
        ("Contacts", "contacts", "phonebook_contact_changelist", "phonebook.view_contact"),
        ("Complaints", "report", "phonebook_complaintday_changelist", "phonebook.view_complaintday"),
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
    ("Add a rule", "phonebook_numberrule_add", "phonebook.add_numberrule"),
    ("Add a contact", "phonebook_contact_add", "phonebook.add_contact"),
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
    sections: list[dict[str, Any]] = []
    for section, pages in _SIDEBAR.items():
        items = [
            {"title": title, "icon": icon, "link": reverse(f"admin:{name}")}
            for title, icon, name, permission in pages
            if permission is None or request.user.has_perm(permission)
        ]
        if items:
            sections.append({"title": section, "separator": bool(section), "items": items})
    _mark_current(request, [item for section in sections for item in section["items"]])
    return sections


def _mark_current(request: HttpRequest, items: list[dict[str, Any]]) -> None:
    """Mark the item of the current page. Unfold's own rule marks two if the path of one begins with the other's."""
    index = reverse("admin:index")
    matching = [item["link"] for item in items if request.path.startswith(item["link"]) and item["link"] != index]
    current = max(matching, key=len, default=index if request.path == index else None)
    for item in items:
        item["active"] = item["link"] == current
