"""The breadcrumbs of the console's pages: they have the names of the menu."""

import re
from html import unescape

import pytest
from django.db.models import Model
from django.test import Client

from tests.console.role_table import logged_in
from tests.console_pages import words
from tests.plugin import of_addons

pytestmark = [pytest.mark.django_db, pytest.mark.once]


def trail(client: Client, url: str) -> list[str]:
    heading = re.search(r"<h1.*?</h1>", client.get(url).text, re.DOTALL)
    assert heading
    parts = re.sub(r"<span class=\"material-symbols[^>]*>chevron_right</span>", "|", heading[0])
    return [part.strip() for part in unescape(words(parts)).split("|")]


def test_breadcrumbs_have_the_names_of_the_menu(rows: dict[str, Model]) -> None:
    boss, key = logged_in("superuser"), rows["accounts.apitoken"].pk
    tokens = ["Tokens and credits", "API tokens"]
    token = [*tokens, str(rows["accounts.apitoken"])]
    for url, expected in {
        "": ["Dashboard"],
        "accounts/apitoken/": tokens,
        "accounts/apitoken/add/": [*tokens, "Issue an API token"],
        f"accounts/apitoken/{key}/change/": token,
        f"accounts/apitoken/{key}/top-up/": [*token, "Top up"],
        "accounts/apitoken/999999/top-up/": [*tokens, "Page not found"],
        "monitoring/source/": ["Monitoring", "Sources"],
        "monitoring/source/complaints/change/": ["Monitoring", "Sources", "complaints"],
        "auth/user/invite/": ["Operators", "Users", "Invite a user"],
        "second-factor/": ["Two-factor authentication"],
        "nowhere/": ["Page not found"],
        **of_addons("TRAILS"),
    }.items():
        assert trail(boss, f"/admin/{url}") == expected, url
