"""No address of the console has a number, and what stands there instead comes back only with the key."""

import re
from collections.abc import Iterator
from importlib import import_module
from typing import Any
from urllib.parse import unquote

import pytest
from django.apps import apps
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.auth.models import User
from django.contrib.contenttypes.models import ContentType
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st

from accounts import hashing
from lookup.models import ComplaintDay, Contact, NumberRule
from lookup.sealing import seal, unseal
from tests.lookup.admin_pages import COMPLAINTS, CONTACTS, NUMBER, RULES, address, searched

FIELDS = {"name": "x", "location": "", "spam": "true", "note": "", "source": "desk", "day": "2026-01-02", "total": 1}
MODELS: dict[str, Any] = {RULES: NumberRule, CONTACTS: Contact, COMPLAINTS: ComplaintDay}
# Any six digits of it in a row.
PART = re.compile("|".join(str(NUMBER)[start : start + 6] for start in range(7)))


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"])))
def test_what_is_sealed_comes_back(text: str) -> None:
    sealed = seal(text)
    assert unseal(sealed) == text
    assert seal(text) == sealed
    assert re.fullmatch("[a-z2-7]{26,}", sealed)


@pytest.mark.parametrize(
    "sealed", ["", "a", str(NUMBER), "abcdefgh" * 5, "é", "\ud800", "=", "a b", "x" * 5000, "aaaaaaaa" * 4]
)
def test_what_is_not_sealed_is_refused(sealed: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        unseal(sealed)


def test_a_changed_character_is_refused() -> None:
    sealed = seal(str(NUMBER))
    changes = [
        sealed[:index] + other + sealed[index + 1 :]
        for index, character in enumerate(sealed)
        for other in "abcdefghijklmnopqrstuvwxyz234567"
        if other != character
    ]
    for changed in [*changes, sealed.upper(), f"{sealed}=", f" {sealed}"]:
        with pytest.raises(ValueError):  # noqa: PT011
            unseal(changed)


def test_another_key_makes_another_address_and_cannot_read_it(settings: Any) -> None:
    sealed = seal(str(NUMBER))
    settings.NUMBER_HASH_KEY = "another key of at least thirty-two bytes"
    assert seal(str(NUMBER)) != sealed
    with pytest.raises(ValueError):  # noqa: PT011
        unseal(sealed)


def addresses(response: Any) -> Iterator[str]:
    """Every one that a browser would ask, log or follow because of this answer."""
    yield f"{response.request['PATH_INFO']}?{response.request['QUERY_STRING']}"
    yield from (where for where, _ in getattr(response, "redirect_chain", []))
    if response.status_code == 302:
        yield response["Location"]
    yield from re.findall(r'(?:href|src|action|formaction|hx-get|data-url)="([^"]*)"', response.text)


@pytest.mark.django_db
@pytest.mark.parametrize("url", [RULES, CONTACTS, COMPLAINTS])
def test_no_page_asks_or_links_an_address_with_a_number(admin_client: Client, url: str) -> None:
    fields = {**FIELDS, "number": str(NUMBER), "robocalls": 0}
    responses = []

    def get(where: str) -> str:
        responses.append(admin_client.get(where, follow=True))
        return str(responses[-1].text)

    def post(where: str, **data: Any) -> str:
        responses.append(admin_client.post(where, data))
        if responses[-1].status_code == 302:
            get(responses[-1]["Location"])
        return str(responses[-1].text)

    get(f"{url}add/")
    assert "was added successfully" in post(f"{url}add/", **fields, _continue="1")
    model = MODELS[url]
    here = f"{url}{address(model.objects.get())}/"
    assert f'href="{here}history/"' in get(f"{here}change/")
    assert f'href="{here}delete/"' in responses[-1].text
    assert f'href="{here}change/' in post(url, search_term=str(NUMBER))
    assert f'value="{NUMBER}"' in responses[-1].text
    filtered = responses[-2]["Location"].partition("?")[2]
    assert filtered.startswith("q=")
    get(f"{here}change/?_changelist_filters={filtered.replace('=', '%3D')}")
    post(f"{here}change/", **fields, _continue="1")
    assert "was changed successfully" in post(f"{here}change/", **fields)
    post(f"{here}change/", **{**fields, "name": "", "total": ""})
    post(f"{here}change/", **fields, _addanother="1")
    assert "Changed" in get(f"{here}history/") or "Added" in responses[-1].text
    assert str(NUMBER) in get("/admin/admin/logentry/")
    get(f"{here}delete/")
    post(url, action="delete_selected", _selected_action=model.objects.get().pk)
    assert "was deleted successfully" in post(f"{here}delete/", post="yes")
    get(f"{here}change/")
    get("/admin/admin/logentry/")
    get("/admin/")
    found = [where for response in responses for where in addresses(response) if PART.search(unquote(where))]
    assert found == []
    assert len(responses) > 20
    assert not model.objects.exists()


@pytest.mark.django_db
@pytest.mark.parametrize("url", [RULES, CONTACTS])
def test_an_address_with_a_number_finds_nothing(admin_client: Client, url: str) -> None:
    MODELS[url].objects.create(number=NUMBER, name="Alice Example")
    for page in ("change", "delete", "history"):
        response = admin_client.get(f"{url}{NUMBER}/{page}/")
        assert response.status_code == 302
        assert "Alice" not in response.text
    response = admin_client.get(url, {"q": str(NUMBER)})
    assert "Use the search field" in response.text
    assert f'value="{NUMBER}"' not in response.text.partition('id="searchbar"')[0]


@pytest.mark.django_db
def test_a_search_keeps_the_filter_and_begins_at_the_first_page(admin_client: Client) -> None:
    for number, spam in ((NUMBER, True), (NUMBER + 1, False)):
        NumberRule.objects.create(number=number, spam=spam)
    response = searched(admin_client, f"{RULES}?spam__exact=1&p=3", "4930")
    assert [row.number for row in response.context["cl"].result_list] == [NUMBER]
    assert response.redirect_chain == [(f"{RULES}?spam__exact=1&q={seal('4930')}", 302)]


@pytest.mark.django_db
def test_who_may_not_view_a_list_may_not_search_it(client: Client) -> None:
    Contact.objects.create(number=NUMBER, name="Alice Example")
    client.force_login(User.objects.create_user("limited", is_staff=True))
    assert client.post(CONTACTS, {"search_term": str(NUMBER)}, follow=True).status_code == 403


@pytest.mark.django_db
def test_the_history_of_a_row_has_its_entries(admin_client: Client) -> None:
    admin_client.post(f"{CONTACTS}add/", {"number": str(NUMBER), "name": "x", "location": ""})
    admin_client.post(f"{CONTACTS}{address(NUMBER)}/change/", {"name": "y", "location": ""})
    response = admin_client.get(f"{CONTACTS}{address(NUMBER)}/history/")
    assert [entry.action_flag for entry in response.context["action_list"]] == [1, 2]
    history = admin_client.get("/admin/admin/logentry/").text
    assert f"{CONTACTS}{address(NUMBER)}/change/" in history


@pytest.mark.django_db
def test_the_migration_seals_what_the_history_held(admin_user: User, admin_client: Client) -> None:
    kinds = {model: ContentType.objects.get_for_model(model) for model in (Contact, NumberRule, ComplaintDay, User)}
    rows = [
        LogEntry(user=admin_user, content_type=kind, object_id=object_id, object_repr="x", action_flag=CHANGE)
        for kind in kinds.values()
        for object_id in (str(NUMBER), seal("4930231"), None)
    ]
    LogEntry.objects.bulk_create(rows)
    history = admin_client.get("/admin/admin/logentry/").text
    assert [f"{url}{NUMBER}/" in history for url in (RULES, CONTACTS, COMPLAINTS)] == [False, False, True]
    migration = import_module("lookup.migrations.0005_source_results")
    migration.seal_numbers_in_the_history(apps, None)
    for model, kind in kinds.items():
        sealed = model in (Contact, NumberRule)
        expected = {seal(str(NUMBER)) if sealed else str(NUMBER), seal("4930231"), None}
        assert set(LogEntry.objects.filter(content_type=kind).values_list("object_id", flat=True)) == expected
    assert hashing.keyed_hash("p", "v") == migration.keyed("p", "v")
    assert migration.sealed("123456789012345") == seal("123456789012345")
