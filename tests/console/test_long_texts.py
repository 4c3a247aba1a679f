"""Texts of any length that a page of the console is sent, before the login too."""

import time
from http import cookies
from typing import Any

import pytest
from django import forms
from django.contrib import auth
from django.contrib.admin import site
from django.contrib.auth.models import User
from django.test import Client, RequestFactory
from django.urls import reverse

from console import login_log
from core.admin import MAX_SEARCH
from core.long_lists import ListForm
from core.text import MAX_FIELD
from phonebook.admin.number_admin import NumberAdmin
from tests.console.console_rows import one_of_each
from tests.console.test_csrf_and_get import addresses

pytestmark = [pytest.mark.django_db, pytest.mark.once]

#: Unicode normalization sorts the combining characters after a letter, in quadratic time: half a minute for this text.
UNORDERED = "a" + "\u0315\u0316" * 60_000


@pytest.mark.parametrize("log", [auth.authenticate, login_log.log_throttled])
def test_failed_login_with_a_long_name_is_logged_at_once(boss: User, log: Any, settings: Any) -> None:
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = None  # the log itself does not rely on it
    request = RequestFactory().post(reverse("admin:login"), {"username": UNORDERED})
    request.user = auth.models.AnonymousUser()
    started = time.process_time()
    if log is auth.authenticate:
        log(request, username=UNORDERED, password="guess")
    else:
        log(request, "password")
    assert time.process_time() - started < 10


def test_every_page_refuses_a_long_field_before_it_looks_at_it(admin_client: Client) -> None:
    urls = [reverse("admin:index") + path for path in addresses(site.get_urls(), one_of_each())]
    assert len(urls) > 80
    for url in urls:
        for client, status in ((Client(), 403), (admin_client, 400)):
            for fields in ({"x": UNORDERED}, {UNORDERED: "x"}):
                assert client.post(url, fields).status_code == status, url
            for refused in ("x" * (MAX_FIELD + 1), "x\0"):
                assert client.get(url, {"q": refused}).status_code == 400, url
                assert client.post(url, {refused: "x"}).status_code == 400, url


@pytest.mark.parametrize("path", ["/callerid/search", "/readyz", "/metrics", "/", "/docs", "/admin/login/", "/nowhere"])
def test_cookie_full_of_escapes_is_not_decoded(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python's decoding of one is quadratic: ten seconds for 60 KB."""
    decoded: list[str] = []
    monkeypatch.setattr(cookies, "_unquote", decoded.append)
    client = Client(headers={"cookie": 'a="' + "\\" * 60_000 + '"; b="c\\"d"'})
    assert client.post(path).status_code < 500
    assert decoded == []


@pytest.mark.parametrize("name", ["sessionid", "csrftoken", "messages"])
def test_cookie_with_a_null_character_is_ignored(name: str) -> None:
    """PostgreSQL refuses it as the key of a session. A cookie writes it as an octal escape."""
    client = Client(headers={"cookie": f'{name}="\\000{"0" * 31}"'})
    for path in ("/admin/", "/admin/login/"):
        assert client.get(path).status_code in (200, 302)


def test_refusal_of_a_long_field_is_a_page_of_the_console(admin_client: Client) -> None:
    response = admin_client.post(reverse("admin:phonebook_contact_add"), {"number": "x" * (MAX_FIELD + 1)})
    assert 'id="nav-sidebar"' in response.text
    assert f"A field has more than {MAX_FIELD:,} characters" in response.text


def test_field_of_the_longest_length_is_taken(admin_client: Client) -> None:
    note = "x" * MAX_FIELD
    sent = {"name": "Example Ltd", "note": note, "contacts-TOTAL_FORMS": 0, "contacts-INITIAL_FORMS": 0}
    assert admin_client.post(reverse("admin:accounts_customer_add"), sent).status_code == 302


def test_every_list_refuses_a_long_search(admin_client: Client) -> None:
    searchable = [
        model for model, page in site._registry.items() if page.search_fields and not isinstance(page, NumberAdmin)
    ]
    assert len(searchable) >= 5
    for model in searchable:
        url = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")
        response = admin_client.get(url, {"q": "x" * (MAX_SEARCH + 1)}, follow=True)
        assert "x" * 20 not in response.text, url
        assert f"Enter at most {MAX_SEARCH} characters" in response.text, url
        assert admin_client.get(url, {"q": "x" * MAX_SEARCH}).status_code == 200, url


def test_no_field_is_cut_by_the_browser(admin_client: Client) -> None:
    rows = one_of_each()
    urls = [reverse("admin:index") + path for path in addresses(site.get_urls(), rows)]
    texts = [response.text for url in urls if (response := admin_client.get(url)).status_code == 200]
    assert len(texts) > 50
    assert [text for text in texts if "maxlength" in text] == []


@pytest.mark.parametrize(
    ("page", "limit"),
    [("apitoken/add", limit) for limit in (100, 200, MAX_FIELD)]
    + [("customer/add", limit) for limit in (100, MAX_FIELD)],
)
def test_length_is_shown_before_it_is_exceeded(admin_client: Client, page: str, limit: int) -> None:
    assert f"At most {limit:,} characters." in admin_client.get(f"/admin/accounts/{page}/").text


def forms_of(base: type) -> set[type]:
    return {base}.union(*map(forms_of, base.__subclasses__()))


def test_no_field_of_a_form_hides_its_length() -> None:
    """But for filters, and codes of two-factor authentication."""
    hiding = {
        f"{form.__name__}.{name}"
        for form in forms_of(forms.Form) - forms_of(ListForm)
        if form.__module__.partition(".")[0] in ("accounts", "console", "lookup", "monitoring", "phonebook")
        for name, field in form.base_fields.items()  # type: ignore[attr-defined]
        if type(field) is forms.CharField and field.max_length and not field.widget.is_hidden
    }
    assert hiding == {"CodeForm.code", "SetUpForm.code"}
