"""Every role on every page of the console, by real requests, against one table."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.apps import apps
from django.contrib.admin import site
from django.contrib.auth.models import Group, User
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.models import Model
from django.test import Client
from django.urls import reverse

from tests.callerid_project.console.console_rows import database
from tests.callerid_project.console.role_table import OF_THE_SITE, PAGES, ROLES, address, answer, logged_in, requests

pytestmark = [pytest.mark.django_db, pytest.mark.once]


@pytest.mark.parametrize(("model", "verb"), PAGES, ids=[" ".join(page) for page in PAGES])
def test_each_role_can_do_what_the_table_says(
    model: str, verb: str, rows: dict[str, Model], clients: dict[str, Client]
) -> None:
    sent, before = list(requests(model, verb, rows[model], clients["superuser"])), database()
    answers = {role: {answer(clients[role], request, before) for request in sent} for role in ROLES}
    assert answers == {role: {cell} for role, cell in PAGES[model, verb].items()}


@pytest.mark.parametrize(("model", "verb"), PAGES, ids=[" ".join(page) for page in PAGES])
def test_non_staff_are_redirected_to_the_login(model: str, verb: str, rows: dict[str, Model]) -> None:
    sent = list(requests(model, verb, rows[model], logged_in("superuser")))
    outsiders = [
        Client(),
        logged_in("operator", is_staff=False),
        logged_in("auditor", is_staff=False, is_superuser=True),
        logged_in("viewer", is_active=False),
    ]
    before = database()
    assert {answer(client, request, before) for client in outsiders for request in sent} == {"login"}


def test_table_covers_every_console_page() -> None:
    verbs = {"list", "view", "history", "add", "change", "delete"}
    for model in site._registry:
        assert verbs <= {verb for label, verb in PAGES if label == model._meta.label_lower}, model
    names = {"list": ["changelist"], "view": ["change"]}
    known = {f"{m.replace('.', '_')}_{name}" for m, verb in PAGES for name in names.get(verb, [verb])}
    assert page_names(site.get_urls()) == known | OF_THE_SITE


def page_names(patterns: list[Any]) -> set[str | None]:
    """Except unnamed patterns: Django's old URL of an object, and its catch-all."""
    found: set[str | None] = set()
    for pattern in patterns:
        found |= page_names(pattern.url_patterns) if hasattr(pattern, "url_patterns") else {pattern.name}
    return found - {None}


def test_list_actions_match_the_table(rows: dict[str, Model], clients: dict[str, Client]) -> None:
    actions = {"delete": "delete_selected", "top_up_selected": "top_up_selected", "send_again": "send_selected_again"}
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


def test_the_framework_has_no_search_of_its_own(clients: dict[str, Client]) -> None:
    assert clients["auditor"].get(reverse("admin:search"), {"s": "user"}).status_code == 404


# --- The migration -----------------------------------------------------------------------------------------------


@pytest.fixture
def migrate() -> Iterator[Any]:
    def to(name: str | None) -> None:
        MigrationExecutor(connection).migrate([("callerid_project", name)])

    yield to
    executor = MigrationExecutor(connection)
    executor.migrate(executor.loader.graph.leaf_nodes("callerid_project"))


@pytest.mark.django_db(transaction=True)
def test_reverse_migration_keeps_roles_that_were_changed(migrate: Any) -> None:
    migrate(None)
    migrate("0001_roles")
    assert set(Group.objects.values_list("name", flat=True)) == {"viewer", "support", "operator", "auditor"}
    User.objects.create_user("olga").groups.add(Group.objects.get(name="operator"))
    support = Group.objects.get(name="support")
    support.permissions.remove(support.permissions.get(codename="refund_creditentry"))
    kept = {group.name: group.permissions.count() for group in (support, Group.objects.get(name="operator"))}
    migrate(None)
    assert {group.name: group.permissions.count() for group in Group.objects.all()} == kept
    migrate("0001_roles")
    assert set(Group.objects.values_list("name", flat=True)) == {"viewer", "support", "operator", "auditor"}
    assert support.permissions.count() == kept["support"]
    assert User.objects.get().groups.get().name == "operator"


@pytest.mark.django_db(transaction=True)
def test_existing_group_with_a_role_name_gets_no_permission(migrate: Any) -> None:
    migrate(None)
    theirs = Group.objects.create(name="operator")
    migrate("0001_roles")
    assert theirs.permissions.count() == 0
    assert Group.objects.get(name="viewer").permissions.count() > 0


@pytest.mark.django_db(transaction=True)
def test_new_permissions_go_to_roles_that_lost_none(migrate: Any) -> None:
    def has(role: str, codename: str) -> bool:
        return Group.objects.get(name=role).permissions.filter(codename=codename).exists()

    migrate("0001_roles")
    support = Group.objects.get(name="support")
    support.permissions.remove(support.permissions.get(codename="refund_creditentry"))
    migrate("0002_source_permissions")
    assert not has("support", "test_lookup")
    assert all(has("operator", codename) for codename in ("check_source", "pause_source", "test_lookup"))
    assert not any(has("viewer", codename) for codename in ("check_source", "pause_source", "test_lookup"))
    migrate("0001_roles")
    assert not has("operator", "pause_source")


@pytest.mark.django_db(transaction=True)
def test_roles_that_lost_no_permission_may_view_alerts(migrate: Any) -> None:
    migrate("0004_customer_permissions")
    support = Group.objects.get(name="support")
    support.permissions.remove(support.permissions.get(codename="refund_creditentry"))
    migrate("0005_alert_permission")
    may = Group.objects.filter(permissions__codename="view_incident").values_list("name", flat=True)
    assert set(may) == {"viewer", "operator", "auditor"}
    migrate("0004_customer_permissions")
    assert not Group.objects.filter(permissions__codename="view_incident").exists()
