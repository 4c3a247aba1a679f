"""The pages of the console, for its sidebar and its search, and what each role may do. (`theme` has the user menu.)

To add a page: register a ModelAdmin in a module of the `admin` package of its app (`console.admin` has those of
Django's own models), and add it to `_SIDEBAR`. tests/console/role_table.py says which role may open it.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from django.http import HttpRequest
from django.urls import reverse

_EVERY_ROLE = "viewer auditor billing support operator"
_EXCEPT_BILLING = "viewer auditor support operator"


class _Page(NamedTuple):
    """`icon`: a Material symbol. `name`: that of the URL. `permission`: to open it, or several; `roles`: those that
    have it. `synonyms`: other words by which the search finds it. `row_action`: of an action on a row, the end of the
    name of its URL, which has the row's key."""

    title: str
    icon: str
    name: str
    permission: str = ""
    roles: str = ""
    synonyms: str = ""
    row_action: str = ""

    @property
    def url(self) -> str:
        return reverse(f"admin:{self.name}")

    def is_called(self, text: str) -> bool:
        """Whether each word of `text` is a part of the title or of the synonyms."""
        names = f"{self.title} {self.synonyms}".casefold()
        return all(word in names for word in text.casefold().split())


def _list(title: str, icon: str, model: str, roles: str, synonyms: str = "") -> _Page:
    app, _, name = model.partition(".")
    return _Page(title, icon, f"{app}_{name}_changelist", f"{app}.view_{name}", roles, synonyms)


def _add(title: str, model: str, roles: str, synonyms: str) -> _Page:
    app, _, name = model.partition(".")
    return _Page(title, "", f"{app}_{name}_add", f"{app}.add_{name}", roles, synonyms)


def _in_list(title: str, model: str, permission: str, synonyms: str, row_action: str = "") -> _Page:
    """An action on a row of a list: the page is the list."""
    page = _list(title, "", model, "")
    return page._replace(permission=f"{page.permission} {permission}", synonyms=synonyms, row_action=row_action)


def _import(title: str, model: str, synonyms: str) -> _Page:
    app, _, name = model.partition(".")
    permissions = " ".join(f"{app}.{each}_{name}" for each in ("add", "change", "delete"))
    return _Page(title, "", f"{app}_{name}_import_file", permissions, "", f"upload a file csv {synonyms}")


#: By section.
_SIDEBAR = {
    "": [
        _Page("Dashboard", "monitoring", "index", "", "", "home status health money price"),
        _list("Alerts", "notifications", "monitoring.incident", _EXCEPT_BILLING, "incidents alarms outage"),
    ],
    "Tokens and credits": [
        _list("Customers", "groups", "accounts.customer", _EVERY_ROLE, "clients companies"),
        _list("API tokens", "key", "accounts.apitoken", _EVERY_ROLE, "keys jwt balance"),
        _list(
            "Ledger",
            "receipt_long",
            "accounts.creditentry",
            "billing support operator auditor",
            "charges credits payments",
        ),
        _Page(
            "Revenue",
            "payments",
            "revenue",
            "accounts.view_creditentry",
            "billing support operator auditor",
            "sales margin earned",
        ),
    ],
    "Monitoring": [
        _list("Request log", "list_alt", "monitoring.requestlogentry", "support operator auditor", "searches"),
        _list("Sources", "speed", "monitoring.source", _EXCEPT_BILLING, "vendors connectors cost price"),
        _Page("Test a number", "phone_in_talk", "monitoring_source_test", "monitoring.test_lookup", "support operator"),
        _list("Notices", "mail", "monitoring.notice", "support operator auditor", "e-mails webhooks"),
    ],
    "Numbers": [
        _list("Rules", "gavel", "phonebook.numberrule", "support operator auditor", "blacklist whitelist"),
        _list("Contacts", "contacts", "phonebook.contact", "operator auditor", "names address book"),
        _list("Complaints", "report", "phonebook.complaintday", "operator auditor", "spam robocalls"),
        _list("Look up a file", "find_in_page", "lookup.filelookup", "operator", "look-ups batch csv search numbers"),
        _list("Imports", "upload_file", "phonebook.importbatch", "operator auditor", "undo uploads"),
        _Page(
            "Erase a number's data",
            "delete_forever",
            "phonebook_contact_erase",
            "phonebook.erase_contact",
            "operator",
            "erasure gdpr personal data forget right to be forgotten delete my data remove privacy",
        ),
    ],
    "Operators": [
        _list("Users", "person", "auth.user", "auditor", "staff operators accounts"),
        _list("Roles", "shield_person", "auth.group", "auditor", "permissions groups"),
        _list("Alert recipients", "contact_mail", "monitoring.alertrecipient", "auditor", "e-mail addresses on call"),
        _list("History", "history", "admin.logentry", "auditor", "audit log changes"),
    ],
}

#: What the search finds as actions. `_in_list` has no roles: _ACTIONS grants these permissions.
_OTHERS = [
    _add("Issue an API token", "accounts.apitoken", "operator", "create new add key jwt"),
    _in_list(
        "Top up tokens",
        "accounts.apitoken",
        "accounts.top_up_apitoken",
        "topup add buy credits price payment",
        "top_up",
    ),
    _in_list(
        "Rotate a token (also if stolen)",
        "accounts.apitoken",
        "accounts.rotate_apitoken",
        "renew replace key stolen leaked compromised exposed lost theft",
        "rotate",
    ),
    _in_list("Revoke a token", "accounts.apitoken", "accounts.revoke_apitoken", "block disable stop key", "revoke"),
    _add("Add a customer", "accounts.customer", "operator", "create new company client"),
    _in_list("Refund a search", "accounts.creditentry", "accounts.refund_creditentry", "give back credit charge"),
    _in_list("Export the ledger", "accounts.creditentry", "accounts.export_creditentry", "csv download"),
    _in_list("Send a test alert", "monitoring.incident", "monitoring.change_notice", "webhook e-mail")._replace(
        name="monitoring_incident_send_test"
    ),
    _in_list("Pause a source", "monitoring.source", "monitoring.pause_source", "stop vendor", "pause"),
    _in_list("Resume a source", "monitoring.source", "monitoring.pause_source", "start vendor", "resume"),
    _in_list("Check a source", "monitoring.source", "monitoring.check_source", "vendor connection", "check_now"),
    _add("Add a rule", "phonebook.numberrule", "operator", "blacklist whitelist block allow spam prefix"),
    _Page("Upload numbers to look up", "", "lookup_filelookup_upload", "lookup.add_filelookup", "operator", "csv file"),
    _import("Import contacts", "phonebook.contact", "vcard"),
    _import("Import complaints", "phonebook.complaintday", "ftc fcc block list"),
    _add("Add a contact", "phonebook.contact", "operator", "create new name"),
    # No such permission: only superusers have it.
    _Page("Invite a user", "", "auth_user_invite", "console.superuser", "", "add new operator colleague"),
    _Page("Change password", "", "password_change"),
    _Page("Two-factor authentication", "", "second_factor", "", "", "2fa two factor mfa otp totp recovery codes"),
]

#: By the roles that have them, the permissions to do something on these pages.
_ACTIONS = {
    "billing support operator": ("accounts.top_up_apitoken",),
    "support operator": ("accounts.refund_creditentry",),
    "operator": (
        *(f"accounts.{action}_apitoken" for action in ("change", "adjust", "transfer", "rotate", "revoke")),
        *(f"accounts.{action}_customer" for action in ("add", "change", "delete")),
        *(f"phonebook.{action}_numberrule" for action in ("change", "delete")),
        *(f"phonebook.{action}_contact" for action in ("change", "delete")),
        *(f"phonebook.{action}_complaintday" for action in ("add", "change", "delete")),
        *("accounts.give_any_credits", "monitoring.change_notice"),
        *("monitoring.check_source", "monitoring.pause_source", "monitoring.handle_incident"),
    ),
    "operator auditor": ("accounts.export_creditentry",),
}


def permissions_of(role: str) -> set[str]:
    """The permissions that this version gives to a role."""
    pages = [page for section in (*_SIDEBAR.values(), _OTHERS) for page in section]
    granted = {page.permission for page in pages if role in page.roles.split()}
    return granted.union(*(names for roles, names in _ACTIONS.items() if role in roles.split()))


def found_by(text: str, request: HttpRequest) -> Iterator[tuple[str, str, str]]:
    """Title, URL and section of the pages of the sidebar with this name that the user may open."""
    for section, pages in _SIDEBAR.items():
        for page in _permitted(request, pages):
            if page.is_called(text):
                yield page.title, page.url, section


def actions_found_by(text: str, request: HttpRequest) -> Iterator[tuple[str, str]]:
    """Title and URL of the actions with this name that the user may perform."""
    for page in _permitted(request, _OTHERS):
        if page.is_called(text):
            yield page.title, page.url


def row_actions_found_by(text: str, request: HttpRequest) -> Iterator[tuple[str, str, str, str]]:
    """Title, model, end of the URL's name and the other words, of the actions on a row with which the text begins."""
    words = text.split()
    for page in _permitted(request, [page for page in _OTHERS if page.row_action]):
        for count in range(len(words) - 1, 0, -1):
            names = f"{page.title} {page.synonyms}".casefold().split()
            if {word.casefold() for word in words[:count]} <= {*names}:
                model = page.name.removesuffix("_changelist").replace("_", ".")
                yield page.title, model, page.row_action, " ".join(words[count:])
                break


def current(path: str) -> tuple[str, _Page] | None:
    """The section and the page of the sidebar to which this path belongs; None for other pages."""
    every = [(section, page) for section, pages in _SIDEBAR.items() for page in pages]
    containing = [(section, page) for section, page in every if page.name != "index" and path.startswith(page.url)]
    is_index = [(section, page) for section, page in every if path == page.url]
    return max(containing or is_index, key=lambda one: len(one[1].url), default=None)


def sidebar(request: HttpRequest) -> list[dict[str, Any]]:
    """Unfold's SIDEBAR navigation: the pages that this operator may view. Unfold's own rule for the current page marks
    two if the path of one begins with the other's."""
    _, active = current(request.path) or ("", None)
    return [
        {
            "title": section,
            "separator": bool(section),
            "items": [
                {"title": page.title, "icon": page.icon, "link": page.url, "active": page == active}
                for page in _permitted(request, pages)
            ],
        }
        for section, pages in _SIDEBAR.items()
    ]


def _permitted(request: HttpRequest, pages: list[_Page]) -> list[_Page]:
    return [page for page in pages if request.user.has_perms(page.permission.split())]
