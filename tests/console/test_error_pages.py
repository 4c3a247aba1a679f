"""403 and 404 below the console's path: in the console's form for those who may open it."""

from typing import Any

import pytest
from django.contrib.admin import site
from django.contrib.auth.models import User
from django.db import OperationalError
from django.test import Client
from django.urls import reverse
from unfold.admin import ModelAdmin

from accounts.models import Customer
from core.admin import LargeTableAdmin
from core.cells import page_url
from tests.console.role_table import logged_in
from tests.console_pages import words

pytestmark = pytest.mark.django_db

MENU = 'id="nav-sidebar"'


def test_denied_page_has_the_menu_of_the_role(optional_second_factor: None) -> None:
    response = logged_in("viewer").get(reverse("admin:accounts_apitoken_add"))
    assert response.status_code == 403
    assert MENU in response.text
    assert "Your roles do not include this." in words(response.text)
    assert reverse("admin:accounts_apitoken_changelist") in response.text
    assert reverse("admin:auth_user_changelist") not in response.text


def test_unknown_page_has_the_menu(optional_second_factor: None) -> None:
    response = logged_in("viewer").get("/admin/nowhere/")
    assert response.status_code == 404
    assert MENU in response.text
    assert "Page not found" in words(response.text)
    assert "look for it with Search above" in words(response.text)


def test_form_without_its_csrf_token_says_to_reload(admin_user: User) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(admin_user)
    response = client.post(reverse("admin:accounts_customer_add"), {"name": "x"})
    assert response.status_code == 403
    assert "Go back, reload the page and submit the form again." in words(response.text)
    assert not Customer.objects.exists()


@pytest.mark.parametrize("is_staff", [False, True])
def test_others_are_not_shown_the_console(settings: Any, is_staff: bool) -> None:
    settings.REQUIRE_2FA = True
    client = logged_in("viewer") if is_staff else Client()
    response = client.get("/admin/nowhere/")
    assert MENU not in response.text


BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


def test_public_404_for_browsers_looks_like_the_product(client: Client) -> None:
    response = client.get("/nowhere", headers=BROWSER)
    assert (response.status_code, response["Content-Type"]) == (404, "text/html; charset=utf-8")
    assert 'href="/"' in response.text
    assert "callerid/icon.svg" in response.text
    assert "style-src 'self'" in response["Content-Security-Policy"]
    for accept in ("*/*", "application/json"):
        assert client.get("/nowhere", headers={"Accept": accept}).json() == {"detail": "Not found."}


def test_console_500_needs_no_database_and_links_back(
    monkeypatch: pytest.MonkeyPatch, django_assert_num_queries: Any
) -> None:
    def broken(*args: Any, **kwargs: Any) -> None:
        raise RuntimeError

    monkeypatch.setattr("console.site.ConsoleSite.has_permission", broken)
    client = Client(raise_request_exception=False)
    with django_assert_num_queries(0):
        response = client.get("/admin/accounts/apitoken/")
    assert response.status_code == 500
    assert '<a href="/admin/">Console</a>' in response.text
    assert response["X-Request-ID"] in response.text
    assert "callerid/icon.svg" in response.text


def test_login_has_the_logo(client: Client) -> None:
    assert "callerid/icon.svg" in client.get("/admin/login/").text.partition("<main>")[2]


def test_every_long_list_redirects_after_a_timeout(admin_client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    changelist_view = ModelAdmin.changelist_view

    def running_out(self: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
        if request.GET:
            raise OperationalError("canceling statement due to statement timeout")
        return changelist_view(self, request, *args, **kwargs)

    monkeypatch.setattr(ModelAdmin, "changelist_view", running_out)
    lists = [model for model, model_admin in site._registry.items() if isinstance(model_admin, LargeTableAdmin)]
    assert len(lists) > 8
    for model in lists:
        url = page_url(model, "changelist")
        answer = admin_client.get(url, {"p": 1}, follow=True)
        assert answer.redirect_chain == [(url, 302)], model
        assert "Query timed out: too many rows to sort or filter." in answer.text
