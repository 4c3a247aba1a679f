"""The console's frame: what stands in its sidebar, for whom, and in the user's menu."""

from typing import Any

from django.http import HttpRequest
from django.urls import reverse

#: Heading → (title, Material symbol, name of the page, permission to view it).
_SIDEBAR: dict[str, list[tuple[str, str, str, str | None]]] = {
    "": [("Dashboard", "monitoring", "index", None)],
    "Tokens and credits": [
        ("Tokens", "key", "accounts_apitoken_changelist", "accounts.view_apitoken"),
        ("Ledger", "receipt_long", "accounts_creditentry_changelist", "accounts.view_creditentry"),
        ("Notices", "mail", "accounts_notice_changelist", "accounts.view_notice"),
    ],
    "Sources": [
        ("Usage", "speed", "lookup_usage_changelist", "lookup.view_usage"),
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


def navigation(request: HttpRequest) -> list[dict[str, Any]]:
    """For unfold's sidebar: what this operator may see."""
    groups = []
    for heading, pages in _SIDEBAR.items():
        items = [
            {"title": title, "icon": icon, "link": reverse(f"admin:{name}")}
            for title, icon, name, permission in pages
            if permission is None or request.user.has_perm(permission)
        ]
        if items:
            groups.append({"title": heading, "separator": bool(heading), "items": items})
    return groups


def account_links(request: HttpRequest) -> list[dict[str, str]]:
    """For unfold's user menu."""
    pages = {"Change password": "password_change", "Second factor": "second_factor"}
    return [{"title": title, "link": reverse(f"admin:{name}")} for title, name in pages.items()]
