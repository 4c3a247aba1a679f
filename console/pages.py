"""The pages of the console, for its sidebar and a search, and what each role may do. (`theme` has the user menu.)

To add a page: register a ModelAdmin in a module of the `admin` package of its app (`console.admin` has those of
Django's own models), and add it to `_SIDEBAR`, or from an add-on to SIDEBAR. tests/console/role_table.py says which
role may open it.
"""

from itertools import chain
from typing import Any, NamedTuple

from django.apps import apps
from django.contrib import admin
from django.http import HttpRequest
from django.urls import reverse
from django.utils.module_loading import import_string

from core.hooks import Hook

_EVERY_ROLE = "viewer auditor billing support operator"
_EXCEPT_BILLING = "viewer auditor support operator"


class Page(NamedTuple):
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


def list_page(title: str, icon: str, model: str, roles: str, synonyms: str = "") -> Page:
    app, _, name = model.partition(".")
    return Page(title, icon, f"{app}_{name}_changelist", f"{app}.view_{name}", roles, synonyms)


def add_page(title: str, model: str, roles: str, synonyms: str) -> Page:
    app, _, name = model.partition(".")
    return Page(title, "", f"{app}_{name}_add", f"{app}.add_{name}", roles, synonyms)


def _inlist_page(title: str, model: str, permission: str, synonyms: str, row_action: str = "") -> Page:
    """An action on a row of a list: the page is the list."""
    page = list_page(title, "", model, "")
    return page._replace(permission=f"{page.permission} {permission}", synonyms=synonyms, row_action=row_action)


class Place(NamedTuple):
    """Where a page stands in the sidebar: in this section, after the page with this title, or at the section's end;
    with the section's own title, first in it."""

    section: str
    page: Page
    after: str = ""


class Grant(NamedTuple):
    """`roles`: those that have these permissions, to do something on pages. Both are separated by spaces."""

    roles: str
    permissions: str


class View(NamedTuple):
    """A page of the console that belongs to no model. `view`: the dotted path of a function, imported when the page is
    first opened, which is called for users with `permission`; all users of the console if it is empty."""

    route: str
    view: str
    name: str
    permission: str


class Extension(NamedTuple):
    """Of the pages of `model`, which another app registers. `mixin`: the dotted path of a subclass of ConsoleAdmin, put
    before the class of the pages; its `actions_detail` and `actions_list` are added to theirs."""

    model: str
    mixin: str


class HeaderPart(NamedTuple):
    """What stands at the end of the header of every page. `template`, `style` and `script`: names of its template and
    static files."""

    template: str
    style: str
    script: str


SIDEBAR, ACTIONS, GRANTS, VIEWS = Hook[Place](), Hook[Page](), Hook[Grant](), Hook[View]()
HEADER, EXTENSIONS = Hook[HeaderPart](), Hook[Extension]()

#: By section.
_SIDEBAR = {
    "": [
        Page("Dashboard", "monitoring", "index", "", "", "home status health money price"),
    ],
    "Tokens and credits": [
        list_page("Customers", "groups", "accounts.customer", _EVERY_ROLE, "clients companies"),
        list_page("API tokens", "key", "accounts.apitoken", _EVERY_ROLE, "keys jwt balance"),
        list_page(
            "Ledger",
            "receipt_long",
            "accounts.creditentry",
            "billing support operator auditor",
            "charges credits payments",
        ),
    ],
    "Monitoring": [
        list_page("Sources", "speed", "monitoring.source", _EXCEPT_BILLING, "vendors connectors cost price"),
    ],
    "Numbers": [
        list_page("Rules", "gavel", "phonebook.numberrule", "support operator auditor", "blacklist whitelist"),
        list_page("Contacts", "contacts", "phonebook.contact", "operator auditor", "names address book"),
        list_page("Complaints", "report", "phonebook.complaintday", "operator auditor", "spam robocalls"),
        list_page("Imports", "upload_file", "phonebook.importbatch", "operator auditor"),
    ],
    "Operators": [
        list_page("Users", "person", "auth.user", "auditor", "staff operators accounts"),
        list_page("Roles", "shield_person", "auth.group", "auditor", "permissions groups"),
        list_page("History", "history", "admin.logentry", "auditor", "audit log changes"),
    ],
}

#: What a search finds as actions. `_inlist_page` has no roles: _GRANTS grants these permissions.
_ACTIONS = [
    add_page("Issue an API token", "accounts.apitoken", "operator", "create new add key jwt"),
    _inlist_page(
        "Top up tokens",
        "accounts.apitoken",
        "accounts.top_up_apitoken",
        "topup add buy credits price payment",
        "top_up",
    ),
    _inlist_page(
        "Rotate a token",
        "accounts.apitoken",
        "accounts.rotate_apitoken",
        "renew replace key stolen leaked compromised exposed lost theft",
        "rotate",
    ),
    _inlist_page("Revoke a token", "accounts.apitoken", "accounts.revoke_apitoken", "block disable stop key", "revoke"),
    add_page("Add a customer", "accounts.customer", "operator", "create new company client"),
    _inlist_page("Refund a search", "accounts.creditentry", "accounts.refund_creditentry", "give back credit charge"),
    _inlist_page("Export the ledger", "accounts.creditentry", "accounts.export_creditentry", "csv download"),
    _inlist_page("Pause a source", "monitoring.source", "monitoring.pause_source", "stop vendor", "pause"),
    _inlist_page("Resume a source", "monitoring.source", "monitoring.pause_source", "start vendor", "resume"),
    _inlist_page("Check a source", "monitoring.source", "monitoring.check_source", "vendor connection", "check_now"),
    add_page("Add a rule", "phonebook.numberrule", "operator", "blacklist whitelist block allow spam prefix"),
    add_page("Add a contact", "phonebook.contact", "operator", "create new name"),
    # No such permission: only superusers have it.
    Page("Invite a user", "", "auth_user_invite", "console.superuser", "", "add new operator colleague"),
    Page("Change password", "", "password_change"),
    Page("Two-factor authentication", "", "second_factor", "", "", "2fa two factor mfa otp totp recovery codes"),
]

_GRANTS = [
    Grant("billing support operator", "accounts.top_up_apitoken"),
    Grant("support operator", "accounts.refund_creditentry monitoring.test_lookup"),
    Grant("operator auditor", "accounts.export_creditentry"),
    *(
        Grant("operator", permissions)
        for permissions in (
            "accounts.change_apitoken accounts.adjust_apitoken accounts.transfer_apitoken",
            "accounts.rotate_apitoken accounts.revoke_apitoken accounts.give_any_credits",
            "accounts.add_customer accounts.change_customer accounts.delete_customer",
            "phonebook.change_numberrule phonebook.delete_numberrule",
            "phonebook.change_contact phonebook.delete_contact phonebook.erase_contact",
            "phonebook.add_complaintday phonebook.change_complaintday phonebook.delete_complaintday",
            "monitoring.check_source monitoring.pause_source",
        )
    ),
]


def discover() -> None:
    """Register the pages of all apps, and extend those that add-ons extend."""
    admin.autodiscover()
    for label, path in EXTENSIONS:
        model: Any = apps.get_model(label)
        page: Any = type(admin.site.get_model_admin(model))
        mixin = import_string(path)
        if not issubclass(page, mixin):
            lists = ("actions_detail", "actions_list")
            actions = {name: (*getattr(page, name), *getattr(mixin, name)) for name in lists}
            members = {"__module__": page.__module__, **actions}
            admin.site.unregister(model)
            admin.site.register(model, type(page.__name__, (mixin, page), members))


def sections() -> dict[str, list[Page]]:
    """The sidebar, with the pages of add-ons."""
    found = {section: list(pages) for section, pages in _SIDEBAR.items()}
    for section, page, after in SIDEBAR:
        pages = found.setdefault(section, [])
        titles = [section, *(each.title for each in pages)]
        pages.insert(titles.index(after) if after in titles else len(pages), page)
    return found


def actions() -> list[Page]:
    """What users can do on pages, with the actions of add-ons."""
    return [*_ACTIONS, *ACTIONS]


def permissions_of(role: str) -> set[str]:
    """The permissions that this version gives to a role."""
    pages = [*chain.from_iterable(sections().values()), *actions()]
    granted = {name for page in pages if role in page.roles.split() for name in page.permission.split()}
    return granted.union(*(each.permissions.split() for each in (*_GRANTS, *GRANTS) if role in each.roles.split()))


def current(path: str) -> tuple[str, Page] | None:
    """The section and the page of the sidebar to which this path belongs; None for other pages."""
    every = [(section, page) for section, pages in sections().items() for page in pages]
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
                for page in permitted(request, pages)
            ],
        }
        for section, pages in sections().items()
    ]


def permitted(request: HttpRequest, pages: list[Page]) -> list[Page]:
    """Those that the user may open."""
    return [page for page in pages if request.user.has_perms(page.permission.split())]
