"""Every role on every page of the console, by real requests, against one table."""

from itertools import chain
from typing import Any

import pytest
from django.apps import apps
from django.contrib.admin import site
from django.contrib.auth.models import Group, Permission, User
from django.core.management import call_command
from django.db.models import Model
from django.test import Client, RequestFactory
from django.urls import reverse

from accounts.models import Customer
from console import pages, roles
from tests.console.console_rows import database
from tests.console.role_table import OF_AN_UPLOAD, OF_THE_SITE, PAGES, ROLES, address, answer, logged_in, requests

pytestmark = [pytest.mark.django_db, pytest.mark.once]


@pytest.mark.parametrize(("model", "verb"), PAGES, ids=[" ".join(page) for page in PAGES])
def test_each_role_can_do_what_the_table_says(
    model: str, verb: str, rows: dict[str, Model], clients: dict[str, Client]
) -> None:
    """All others, in particular users who are not staff, are redirected to the login."""
    outsiders = {
        "nobody": Client(),
        "not staff": logged_in("operator", username="guest", is_staff=False),
        "superuser, not staff": logged_in("superuser", username="root", is_staff=False),
        "inactive": logged_in("viewer", username="left", is_active=False),
    }
    sent, before = list(requests(model, verb, rows[model], clients["superuser"])), database()
    expected = {**PAGES[model, verb], **dict.fromkeys(outsiders, "login")}
    answers = {}
    for who, client in {**clients, **outsiders}.items():
        answers[who] = {answer(client, request, before) for request in sent}
    assert answers == {who: {cell} for who, cell in expected.items()}


def test_table_covers_every_console_page() -> None:
    verbs = {"list", "view", "history", "add", "change", "delete"}
    for model in site._registry:
        assert verbs <= {verb for label, verb in PAGES if label == model._meta.label_lower}, model
    names = {"list": ["changelist"], "view": ["change"], "send_selected_again": [], "acknowledge_selected": []}
    known = {f"{m.replace('.', '_')}_{name}" for m, verb in PAGES for name in names.get(verb, [verb])}
    assert page_names(site.get_urls()) == known | OF_THE_SITE | OF_AN_UPLOAD


def page_names(patterns: list[Any]) -> set[str | None]:
    """Except unnamed patterns: Django's old URL of an object, and its catch-all."""
    found: set[str | None] = set()
    for pattern in patterns:
        found |= page_names(pattern.url_patterns) if hasattr(pattern, "url_patterns") else {pattern.name}
    return found - {None}


def test_list_actions_match_the_table(rows: dict[str, Model], clients: dict[str, Client]) -> None:
    actions = {
        "delete": "delete_selected",
        "top_up_selected": "top_up_selected",
        "send_selected_again": "send_selected_again",
        "acknowledge_selected": "acknowledge_selected",
    }
    for model, verb in PAGES:
        if verb == "list":
            for role in ROLES:
                request = clients[role].get(address(model, "changelist")).wsgi_request
                offered = set(site._registry[apps.get_model(model)].get_actions(request))
                may = {name for verb, name in actions.items() if PAGES.get((model, verb), {}).get(role) == "yes"}
                assert offered == may, (model, role)


def test_sidebar_shows_each_role_its_lists_only(rows: dict[str, Model], clients: dict[str, Client]) -> None:
    for role in ROLES:
        page = clients[role].get(reverse("admin:index")).text
        for model, verb in PAGES:
            if verb == "list":
                link = f'href="{address(model, "changelist")}"'
                assert (link in page) == (PAGES[model, verb][role] == "yes"), (role, model)


def test_each_role_may_open_its_pages_and_actions(clients: dict[str, Client]) -> None:
    request = RequestFactory().get("/")
    for role in ROLES:
        request.user = User.objects.get(username=f"the {role}")
        listed = [*chain.from_iterable(pages.sections().values()), *pages.actions()]
        urls = [page.url for page in pages.permitted(request, listed)]
        assert {clients[role].get(url, follow=True).status_code for url in urls} == {200}, role


# --- What `migrate` writes ---------------------------------------------------------------------------------------


def codenames(role: str) -> set[str]:
    return set(Group.objects.get(name=role).permissions.values_list("codename", flat=True))


def test_new_permissions_go_to_roles_that_lost_none(monkeypatch: pytest.MonkeyPatch) -> None:
    operator = Group.objects.get(name="operator")
    operator.permissions.remove(operator.permissions.get(codename="refund_creditentry"))
    before = {role: codenames(role) for role in roles.SENTENCES}
    monkeypatch.setattr(Customer._meta, "permissions", [*Customer._meta.permissions, ("print_customer", "Can print")])
    monkeypatch.setattr(pages, "_GRANTS", [*pages._GRANTS, pages.Grant("viewer operator", "accounts.print_customer")])
    call_command("migrate", verbosity=0)
    assert {role: codenames(role) for role in roles.SENTENCES} == before | {
        "viewer": before["viewer"] | {"print_customer"}
    }


def test_existing_group_with_a_role_name_gets_no_permission() -> None:
    Permission.objects.all().delete()
    Group.objects.all().delete()
    Group.objects.create(name="operator")
    call_command("migrate", verbosity=0)
    assert {role for role in roles.SENTENCES if codenames(role)} == {"viewer", "auditor", "billing", "support"}


def test_migrate_leaves_roles_as_operators_have_made_them() -> None:
    support = Group.objects.get(name="support")
    support.permissions.remove(support.permissions.get(codename="refund_creditentry"))
    support.permissions.add(Permission.objects.get(codename="view_logentry"))
    Group.objects.get(name="auditor").delete()
    before = codenames("support")
    call_command("migrate", verbosity=0)
    assert codenames("support") == before
    assert len(codenames("auditor")) == len(roles.permissions_by_role()["auditor"])


def test_an_interrupted_migrate_leaves_no_role_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    Permission.objects.all().delete()
    Group.objects.all().delete()
    with monkeypatch.context() as patch:
        patch.setattr(pages, "_GRANTS", [*pages._GRANTS, pages.Grant("auditor", "accounts.no_such")])
        with pytest.raises(KeyError):
            call_command("migrate", verbosity=0)
    assert not Group.objects.exists()
    call_command("migrate", verbosity=0)
    assert all(len(codenames(role)) == len(granted) for role, granted in roles.permissions_by_role().items())


def test_role_page_shows_the_daily_limit_of_support_users(admin_client: Client, settings: Any) -> None:
    settings.SUPPORT_CREDITS_PER_DAY = 2_500
    text = admin_client.get(f"/admin/auth/group/{Group.objects.get(name='support').pk}/change/").text
    assert "Can top up a token, up to 2,500 credits a day" in text
    assert "Can refund a search, up to 2,500 credits a day" in text
    assert "Can give credits without the limit of 2,500 credits a day" in text
    assert "A user with this role does everything viewer and billing can do" in text
    assert "Can view history entry" in text
    assert "SUPPORT_CREDITS_PER_DAY" not in text
    listed = admin_client.get("/admin/auth/group/").text
    assert "tops up tokens, up to 2,500 credits a day." in listed
