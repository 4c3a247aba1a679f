"""Every URL of the console: GET and HEAD change nothing, and every POST needs a CSRF token."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.admin import site
from django.contrib.auth.models import User
from django.contrib.contenttypes.models import ContentType
from django.db.models import Model
from django.test import Client
from django.urls import reverse
from django.urls.resolvers import RoutePattern

from console import invitations
from console.models import Invitation
from tests.console.console_rows import database, one_of_each

pytestmark = [pytest.mark.django_db, pytest.mark.once]


@pytest.fixture
def urls() -> list[str]:
    rows = one_of_each()
    return [reverse("admin:index") + path for path in addresses(site.get_urls(), rows)]


def addresses(patterns: list[Any], rows: dict[str, Model], prefix: str = "") -> Iterator[str]:
    """The URLs of all patterns, with the key of a row of their model for every parameter."""
    row = rows.get(".".join(prefix.split("/")[:2]))
    for pattern in patterns:
        if hasattr(pattern, "url_patterns"):
            yield from addresses(pattern.url_patterns, rows, prefix + pattern.pattern._route)
        elif pattern.name == "app_list":
            yield from {f"{model._meta.app_label}/" for model in site._registry}
        elif pattern.name == "view_on_site":
            user = rows["auth.user"]
            yield f"r/{ContentType.objects.get_for_model(user).pk}/{user.pk}/"
        elif pattern.name == "invitation":
            invitation = Invitation.objects.get()
            yield invitations.link(invitation, "").removeprefix(reverse("admin:index"))
        elif isinstance(pattern.pattern, RoutePattern):
            yield prefix + re.sub("<.*?>", lambda part: str(row.pk) if row else part[0], str(pattern.pattern))
        else:
            yield "what/is/not/there"


def test_urls_cover_every_console_page(urls: list[str]) -> None:
    assert not [url for url in urls if "<" in url]
    for model, model_admin in site._registry.items():
        at = f"{reverse('admin:index')}{model._meta.app_label}/{model._meta.model_name}/"
        assert len([url for url in urls if url.startswith(at)]) == len(model_admin.get_urls())


def test_get_and_head_change_nothing(urls: list[str], admin_client: Client) -> None:
    """Not even with the data of a form in the query."""
    sent = "action=delete_selected&_selected_action=1&post=yes&amount=5&reason=x&name=x&username=x&days=5"
    before = database()
    for url in urls:
        for method in ("GET", "HEAD"):
            for address in (url, f"{url}?{sent}"):
                response = admin_client.generic(method, address)
                # After a logout by GET, every response would be a redirect.
                assert response.status_code < 500, (method, address)
                assert not response.headers.get("Location", "").startswith(reverse("admin:login")), (method, address)
        if database() != before:
            pytest.fail(f"A GET or HEAD of {url} changed the database")


def test_every_post_needs_a_csrf_token(urls: list[str], admin_user: User) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(admin_user)
    before = database()
    for url in urls:
        fields = {"post": "yes", "action": "delete_selected", "amount": 5, "reason": "x"}
        assert client.post(url, fields).status_code == 403, url
        assert client.post(url, fields, headers={"X-CSRFToken": "x" * 32}).status_code == 403, url
    assert database() == before
