"""No URL of the console contains a number, nor anything that was made from one."""

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

import pytest
from django.contrib.auth.models import User
from django.test import Client

from phonebook.models import Contact, NumberRule
from tests.phonebook.admin.pages import COMPLAINTS, CONTACTS, MODELS, NUMBER, RULES, searched

FIELDS = {"name": "x", "location": "", "spam": "true", "note": "", "source": "desk", "day": "2026-01-02", "total": 1}
# Any six digits of it in a row.
PART = re.compile("|".join(str(NUMBER)[start : start + 6] for start in range(7)))


def addresses(response: Any) -> Iterator[str]:
    """Every URL that a browser would request, log or follow after this response."""
    yield f"{response.request['PATH_INFO']}?{response.request['QUERY_STRING']}"
    yield from (where for where, _ in getattr(response, "redirect_chain", []))
    if response.status_code == 302:
        yield response["Location"]
    yield from re.findall(r'(?:href|src|action|formaction|hx-get|data-url)="([^"]*)"', response.text)


@pytest.mark.django_db
@pytest.mark.parametrize("url", [RULES, CONTACTS, COMPLAINTS])
def test_no_page_requests_or_links_a_url_with_a_number(admin_client: Client, url: str) -> None:
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
    here = f"{url}{model.objects.get().pk}/"
    assert f'href="{here}history/"' in get(f"{here}change/")
    assert f'href="{here}delete/"' in responses[-1].text
    assert f'href="{here}change/' in post(url, search_term=str(NUMBER))
    assert f'value="{NUMBER}"' in responses[-1].text
    post(f"{here}change/", **fields, _continue="1")
    assert "was changed successfully" in post(f"{here}change/", **fields)
    post(f"{here}change/", **{**fields, "name": "", "total": ""})
    post(f"{here}change/", **fields, _addanother="1")
    assert "Changed" in get(f"{here}history/") or "Added" in responses[-1].text
    assert "49********42" in get("/admin/admin/logentry/")
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
def test_url_with_a_number_finds_nothing(admin_client: Client, url: str) -> None:
    MODELS[url].objects.create(number=NUMBER, name="Alice Example")
    for page in ("change", "delete", "history"):
        response = admin_client.get(f"{url}{NUMBER}/{page}/")
        assert response.status_code == 302
        assert "Alice" not in response.text
    response = admin_client.get(url, {"q": str(NUMBER)}, follow=True)
    assert response.redirect_chain == [(url, 302)]
    assert "Use the search field" in response.text
    assert 'value=""' in response.text.partition('id="searchbar"')[0].rpartition("<input")[2]


@pytest.mark.django_db
def test_search_keeps_the_filter_and_starts_at_page_one(admin_client: Client) -> None:
    for number, spam in ((NUMBER, True), (NUMBER + 1, False)):
        NumberRule.objects.create(number=number, spam=spam)
    response = searched(admin_client, f"{RULES}?spam__exact=1&p=3", "4930")
    assert [row.number for row in response.context["cl"].result_list] == [NUMBER]
    assert response.redirect_chain == []
    links = [where for where in addresses(response) if "4930" in where]
    assert links == []


@pytest.mark.django_db
def test_search_needs_the_view_permission(client: Client) -> None:
    Contact.objects.create(number=NUMBER, name="Alice Example")
    client.force_login(User.objects.create_user("limited", is_staff=True))
    assert client.post(CONTACTS, {"search_term": str(NUMBER)}, follow=True).status_code == 403
