"""Which role may do what on each page of the console, and the requests that try it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import uuid4

from django.contrib.auth.models import Group, User
from django.db import transaction
from django.db.models import Model
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from accounts import customers, tokens
from accounts.models import ApiToken, Customer
from tests.console.console_rows import PAUSED, database, filled
from tests.plugin import of_addons

# "staff" can log in and has no role. Users who are not staff can open only the login page.
# A model's pages: `list`; `view`: the object; `history`: the object's; `add`, `change`, `delete`: each page and what it
# does; the others have the name of their URL. A `view` that has no row is for the roles of the `list`, a `history` for
# auditors and superusers, and the rest for nobody.
TABLE = """
                                       staff   viewer  billing  support  operator  auditor  superuser
accounts.apitoken list                 -       yes     yes      yes      yes       yes      yes
accounts.apitoken add                  -       -       -        -        yes       -        yes
accounts.apitoken edit                 -       -       -        -        yes       -        yes
accounts.apitoken top_up               -       -       yes      yes      yes       -        yes
accounts.apitoken adjust               -       -       -        -        yes       -        yes
accounts.apitoken move_credits         -       -       -        -        yes       -        yes
accounts.apitoken rotate               -       -       -        -        yes       -        yes
accounts.apitoken end_grace            -       -       -        -        yes       -        yes
accounts.apitoken revoke               -       -       -        -        yes       -        yes
accounts.apitoken top_up_selected      -       -       yes      yes      yes       -        yes

accounts.customer list                 -       yes     yes      yes      yes       yes      yes
accounts.customer add                  -       -       -        -        yes       -        yes
accounts.customer delete               -       -       -        -        yes       -        yes
accounts.customer edit                 -       -       -        -        yes       -        yes
accounts.customer top_up               -       -       yes      yes      yes       -        yes

accounts.creditentry list              -       -       yes      yes      yes       yes      yes
accounts.creditentry refund            -       -       -        yes      yes       -        yes
accounts.creditentry check_number      -       -       yes      yes      yes       yes      yes
accounts.creditentry export            -       -       -        -        yes       yes      yes

monitoring.source list                 -       yes     -        yes      yes       yes      yes
monitoring.source check_now            -       -       -        -        yes       -        yes
monitoring.source pause                -       -       -        -        yes       -        yes
monitoring.source resume               -       -       -        -        yes       -        yes

phonebook.numberrule list              -       -       -        yes      yes       yes      yes
phonebook.numberrule add               -       -       -        -        yes       -        yes
phonebook.numberrule change            -       -       -        -        yes       -        yes
phonebook.numberrule delete            -       -       -        -        yes       -        yes

phonebook.contact list                 -       -       -        -        yes       yes      yes
phonebook.contact add                  -       -       -        -        yes       -        yes
phonebook.contact change               -       -       -        -        yes       -        yes
phonebook.contact delete               -       -       -        -        yes       -        yes

phonebook.complaintday list            -       -       -        -        yes       yes      yes
phonebook.complaintday add             -       -       -        -        yes       -        yes
phonebook.complaintday change          -       -       -        -        yes       -        yes
phonebook.complaintday delete          -       -       -        -        yes       -        yes

phonebook.importbatch list             -       -       -        -        yes       yes      yes

auth.user list                         -       -       -        -        -         yes      yes
auth.user add                          -       -       -        -        -         -        yes
auth.user change                       -       -       -        -        -         -        yes
auth.user password_change              -       -       -        -        -         -        yes
auth.user reset_second_factor          -       -       -        -        -         -        yes
auth.user invite                       -       -       -        -        -         -        yes
auth.user invite_again                 -       -       -        -        -         -        yes
auth.user withdraw_invitation          -       -       -        -        -         -        yes

auth.group list                        -       -       -        -        -         yes      yes
auth.group add                         -       -       -        -        -         -        yes
auth.group change                      -       -       -        -        -         -        yes
auth.group delete                      -       -       -        -        -         -        yes

admin.logentry list                    -       -       -        -        -         yes      yes
"""
ROLES, *_ROWS = [line.split() for line in TABLE.splitlines() if line]
_OF_ADDONS = [(*page, *cells.split()) for page, cells in of_addons("ROLE_TABLE").items()]
_LISTED = {(model, verb): dict(zip(ROLES, cells, strict=True)) for model, verb, *cells in (*_ROWS, *_OF_ADDONS)}
_NOBODY = dict.fromkeys(ROLES, "-")
_DEFAULTS = {
    "history": {**_NOBODY, "auditor": "yes", "superuser": "yes"},
    **dict.fromkeys(("add", "change", "delete"), _NOBODY),
}
PAGES = {
    (model, verb): cells
    for model in dict.fromkeys(model for model, _ in _LISTED)
    for verb, cells in {"view": _LISTED[model, "list"], **_DEFAULTS}.items()
} | _LISTED

#: Values for the forms that somebody may submit; the other fields keep the values of the page.
TYPED: dict[tuple[str, str], dict[str, Any]] = {
    ("accounts.apitoken", "add"): {"name": "new", "initial_credits": 10, "days": 30, "reason": "order"},
    ("accounts.apitoken", "edit"): {"name": "renamed"},
    ("accounts.apitoken", "top_up"): {"amount": 5, "reason": "paid"},
    ("accounts.apitoken", "top_up_selected"): {"amount": 5, "reason": "paid", "once": str(uuid4())},
    ("accounts.apitoken", "adjust"): {"amount": -5, "reason": "mistake", "confirmed": "on"},
    ("accounts.apitoken", "move_credits"): {"amount": 5, "reason": "one till less"},
    ("accounts.apitoken", "rotate"): {"reason": "leaked", "grace_minutes": "0"},
    ("accounts.apitoken", "end_grace"): {"reason": "leaked", "confirmed": "on"},
    ("accounts.apitoken", "revoke"): {"reason": "lost", "confirmed": "on"},
    ("accounts.customer", "add"): {"name": "new"},
    ("accounts.customer", "edit"): {"name": "renamed"},
    ("accounts.customer", "top_up"): {"amount": 5, "reason": "paid"},
    ("accounts.creditentry", "refund"): {"reason": "wrong name"},
    ("accounts.creditentry", "check_number"): {"number": "493023125042"},
    ("monitoring.source", "pause"): {"reason": "invoice"},
    ("monitoring.source", "resume"): {"reason": "paid"},
    ("phonebook.numberrule", "add"): {"number": "493023125043", "spam": "true"},
    ("phonebook.numberrule", "change"): {"spam": "true"},
    ("phonebook.contact", "add"): {"number": "493023125043", "name": "x"},
    ("phonebook.contact", "change"): {"name": "renamed"},
    ("phonebook.complaintday", "add"): {
        "number": "493023125043",
        "source": "desk",
        "day": "2026-01-02",
        "total": 1,
        "robocalls": 0,
    },
    ("phonebook.complaintday", "change"): {"total": 2},
    ("auth.user", "add"): {"username": "new", "password1": "A long enough one", "password2": "A long enough one"},
    ("auth.user", "change"): {"email": "new@example.org", "is_superuser": "on"},
    ("auth.user", "password_change"): {"password1": "Another long one", "password2": "Another long one"},
    ("auth.user", "invite"): {"username": "new", "email": "new@example.org", "is_superuser": "on"},
    ("auth.group", "add"): {"name": "new"},
    ("auth.group", "change"): {"name": "renamed"},
    **of_addons("TYPED"),
}

#: What is done before the requests of a row.
PREPARED: dict[tuple[str, str], Callable[[Model], object]] = of_addons("PREPARED")
#: Actions of add-ons on lists: `selected` rows, a `form`, or one that leaves everything `unchanged`.
ON_LIST: dict[tuple[str, str], str] = of_addons("ON_LIST")

#: Pages without a model. All staff can open them, and see in them only what their role allows.
OF_THE_SITE = {
    *("index", "app_list", "search", "login", "logout", "jsi18n", "autocomplete", "view_on_site"),
    *("password_change", "password_change_done", "second_factor", "second_factor_verify", "second_factor_set_up"),
    *("invitation", "status", "running_out"),
}.union(of_addons("OF_THE_SITE"))
#: They are about the user's own upload.
OF_AN_UPLOAD = set(of_addons("OF_AN_UPLOAD"))


def logged_in(role: str, **user: Any) -> Client:
    fields = {"username": f"the {role}", "is_staff": True, "is_superuser": role == "superuser", **user}
    made = User.objects.create_user(password="x", **fields)
    if role not in ("staff", "superuser"):
        made.groups.add(Group.objects.get(name=role))
    client = Client()
    client.force_login(made)
    return client


def address(model: str, page: str, *args: Any) -> str:
    return reverse(f"admin:{model.replace('.', '_')}_{page}", args=args)


@dataclass(frozen=True)
class Request:
    """`read_only`: a POST that changes nothing."""

    method: str
    url: str
    data: dict[str, Any] = field(default_factory=dict)
    read_only: bool = False


def requests(model: str, verb: str, row: Model, boss: Client) -> Iterator[Request]:
    """The requests of one row of the table, with forms filled in from the superuser's pages."""

    def url(name: str, *args: Any) -> str:
        return address(model, name, *args)

    def form(where: str, **fields: Any) -> Iterator[Request]:
        yield Request("GET", where)
        typed = {**TYPED.get((model, verb), {}), **fields}
        yield Request("POST", where, filled(boss.get(where), **typed), read_only=is_read_only)

    on_list = ON_LIST.get((model, verb))
    is_read_only = verb == "check_number" or on_list == "unchanged"
    if prepare := PREPARED.get((model, verb)):
        prepare(row)
    match verb:
        case "list":
            yield Request("GET", url("changelist"))
        case "export":
            yield Request("POST", url(verb))
        case "download":
            yield Request("POST", url(verb, str(row.pk)))
        case "view":
            yield Request("GET", url("change", "complaints" if model == "monitoring.source" else str(row.pk)))
        case "history":
            yield Request("GET", url(verb, str(row.pk)))
        case "change" if model == "monitoring.source":  # its page is a source's
            yield Request("POST", url("delete", str(row.pk)), {"post": "yes"})
        case "change":
            yield list(form(url("change", str(row.pk))))[-1]
        case "add":
            yield from form(url("add"))
        case "delete":
            selected = {"action": "delete_selected", "_selected_action": row.pk, "post": "yes"}
            yield Request("GET", url("delete", str(row.pk)))
            yield Request("POST", url("delete", str(row.pk)), {"post": "yes"})
            yield Request("POST", url("changelist"), selected)
        case "check_now" | "pause":
            yield from form(url(verb, "complaints"))
        case "test" | "erase":
            yield from form(url(verb))
        case "resume":
            yield from form(url(verb, PAUSED))
        case "import_file":
            yield Request("GET", url(verb))
        case "invite" | "upload":
            yield from form(url(verb))
        case "top_up_selected":
            yield from form(url(verb), tokens=str(row.pk))
        case "top_up" if model == "accounts.customer":
            token = tokens.issue(name="till", customer=Customer.objects.get(pk=row.pk), actor="boss").token
            yield from form(url(verb, str(row.pk)), token=str(token.pk))
        case "end_grace":
            ApiToken.objects.filter(pk=row.pk).update(previous_until=timezone.now() + timedelta(hours=1))
            yield from form(url(verb, str(row.pk)))
        case "move_credits":
            owner = customers.create(name="Corner Shop")
            ApiToken.objects.filter(pk=row.pk).update(customer=owner)
            target = tokens.issue(name="till", customer=owner, actor="boss").token
            yield from form(url(verb, str(row.pk)), to_token=str(target.pk))
        case _ if on_list == "selected":
            yield Request("POST", url("changelist"), {"action": verb, "_selected_action": row.pk})
        case _ if on_list:
            yield from form(url(verb))
        case _:
            yield from form(url(verb, str(row.pk)))


def answer(client: Client, request: Request, before: dict[str, list[Any]]) -> str:
    """`yes`, `-` for a refusal that leaves the database unchanged, `login`, or a description of anything else."""
    # Not atomic(): a page may need to be the outermost block (durable).
    savepoint = transaction.savepoint()
    response = client.get(request.url) if request.method == "GET" else client.post(request.url, request.data)
    changed = database() != before
    transaction.savepoint_rollback(savepoint)
    if response.status_code == 302 and response["Location"].startswith(reverse("admin:login")):
        outcome = "login"
    elif response.status_code in (403, 405) or ("action" in request.data and not changed):
        outcome = "-"
    else:
        outcome = "yes" if response.status_code in (200, 302) else str(response.status_code)
    if changed != (outcome == "yes" and request.method == "POST" and not request.read_only):
        outcome = f"{request.method} {request.url}: {response.status_code}, {'changed' if changed else 'unchanged'}"
    return outcome
