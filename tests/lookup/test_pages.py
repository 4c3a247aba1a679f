"""The page at `/`: on the embedded profile a form that calls the API, in production an example request."""

import re
from html.parser import HTMLParser
from typing import Any

import pytest
from django.contrib.staticfiles import finders
from django.test import Client
from django.urls import reverse

from lookup.pages import EXAMPLES
from phonebook.imports.sample_data import load_sample_data
from tests.api import Integrator


class Page(HTMLParser):
    """All elements as (tag, attributes)."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def all(self, tag: str, attribute: str) -> list[str]:
        return [given[attribute] or "" for name, given in self.elements if name == tag and attribute in given]


@pytest.fixture(params=[True, False], ids=["embedded", "production"])
def page(request: pytest.FixtureRequest, client: Client, settings: Any) -> Page:
    settings.EMBEDDED = request.param
    response = client.get("/")
    assert response.status_code == 200
    assert response.headers["Content-Type"] == "text/html; charset=utf-8"
    return Page(response.text)


def test_home_links_to_docs_schema_and_admin(page: Page) -> None:
    assert {reverse("docs"), reverse("schema"), reverse("admin:index")} <= set(page.all("a", "href"))


def test_home_has_no_inline_code_and_no_external_resources(page: Page) -> None:
    sources = [*page.all("script", "src"), *page.all("link", "href"), *page.all("img", "src")]
    assert len(page.all("script", "src")) == sum(tag == "script" for tag, _ in page.elements)
    assert not any(tag == "style" or "style" in given for tag, given in page.elements)
    assert not any(name.startswith("on") for _, given in page.elements for name in given)
    for source in sources:
        assert finders.find(source.removeprefix("/static/")), source


def test_form_inputs_have_no_name_to_be_submitted_by(client: Client, settings: Any) -> None:
    settings.EMBEDDED = True
    inputs = {str(given["id"]): given for tag, given in Page(client.get("/").text).elements if tag == "input"}
    assert set(inputs) == {"token", "number"}
    assert not any("name" in given or "value" in given for given in inputs.values())
    assert (inputs["token"]["type"], inputs["token"]["autocomplete"]) == ("password", "off")


def test_production_shows_the_curl_and_no_form(client: Client, settings: Any) -> None:
    settings.EMBEDDED = False
    html = client.get("/").text
    assert "Send a search:" in html
    assert "curl -s http://testserver/callerid/search" in html
    assert not re.search("<(form|input|script|button)", html)


def test_example_numbers_get_the_described_answers(integrator: Integrator, settings: Any) -> None:
    settings.SOURCE_A, settings.SOURCE_B = "directory,geography", "complaints"
    load_sample_data()
    answers = [integrator.search(re.sub(r"\D", "", number)).json()["data"] for number, _ in EXAMPLES]
    assert [answer["source_b"].get("spam") for answer in answers] == [True, False, None]
    assert all("name" in answer["source_a"] for answer in answers)


def test_head_has_no_body(client: Client) -> None:
    head = client.head("/")
    assert (head.status_code, head.content) == (200, b"")
