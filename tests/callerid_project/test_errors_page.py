"""docs/errors.md has a section for each error, and the request of each section gets the section's response."""

import http.client
import json
import re
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pytest

from accounts import credits
from core import admission
from lookup import schema
from tests.api import Integrator
from tests.asgi import call
from tests.plugin import ROOT
from tests.service import Service

#: Of other paths and hosts than the search's, which the OpenAPI document does not describe.
ELSEWHERE = {(404, "Not found."), (400, "Bad request")}


@dataclass(frozen=True)
class Section:
    status: int
    detail: str
    text: str

    @property
    def request(self) -> str:
        return self._blocks()[0]

    @property
    def response(self) -> str:
        return self._blocks()[1]

    def _blocks(self) -> list[str]:
        blocks = re.findall(r"^```http\n(.*?)\n```$", self.text, re.DOTALL | re.MULTILINE)
        assert len(blocks) == 2, "a section has a request and a response"
        return blocks


def read_sections() -> list[Section]:
    page = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    _, *parts = re.split(r"^## ", page, flags=re.MULTILINE)
    sections = []
    for part in parts:
        heading = re.match(r"(\d{3}) `(.+)`\n", part)
        assert heading, f"not a status and a detail: {part[:60]}"
        sections.append(Section(int(heading[1]), heading[2], part))
    return sections


SECTIONS = read_sections()


def parse(message: str) -> tuple[str, dict[str, str], str]:
    """The first line, the headers and the body."""
    head, _, body = message.partition("\n\n")
    first, *lines = head.split("\n")
    return first, dict(line.split(": ", 1) for line in lines), body


def test_each_error_has_its_section_and_no_section_is_stale() -> None:
    errors = {(status, detail) for status, (_, details) in schema._ERRORS.items() for detail in details}
    documented = [(section.status, section.detail) for section in SECTIONS]
    assert len(documented) == len(set(documented))
    assert set(documented) == errors | ELSEWHERE


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: f"{section.status} {section.detail}")
def test_a_section_says_what_was_charged_and_whether_to_retry(section: Section) -> None:
    assert re.search(r"\*\*Charged:\*\* no", section.text)
    assert re.search(r"\*\*Retry:\*\* \w", section.text)


def no_credits(integrator: Integrator, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    credits.adjust(token=integrator.token, amount=-integrator.balance(), actor="test", reason="none left")


def key_used(integrator: Integrator, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    section = next(each for each in SECTIONS if each.detail.startswith("Idempotency-Key was"))
    _, headers, _ = parse(section.request)
    assert integrator.search("493023125556", Idempotency_Key=headers["Idempotency-Key"]).status_code == 200


def limit_reached(integrator: Integrator, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for _ in range(settings.RATE_LIMIT[0]):
        assert integrator.search("x").status_code == 400


def sources_fail(integrator: Integrator, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.SOURCE_A = settings.SOURCE_B = "tests.connectors.Fails"


#: What precedes the section's request, where a new token with credits would get another response.
STATES: dict[str, Callable[[Integrator, Any, pytest.MonkeyPatch], None]] = {
    "No credits remaining": no_credits,
    "Idempotency-Key was used with another query": key_used,
    "Rate limit exceeded": limit_reached,
    "Internal server error": sources_fail,
}


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: f"{section.status} {section.detail}")
def test_the_request_of_a_section_gets_its_response(
    integrator: Integrator, settings: Any, monkeypatch: pytest.MonkeyPatch, section: Section
) -> None:
    if state := STATES.get(section.detail):
        state(integrator, settings, monkeypatch)
    debits = integrator.debits()
    request, headers, body = parse(section.request)
    method, path, _ = request.split(" ")
    length = int(headers.pop("Content-Length", 0))
    body = "x" * length or body.replace("<API_KEY>", integrator.key)
    content_type = headers.pop("Content-Type", "")
    if section.status == 503:
        monkeypatch.setattr(admission, "searches", admission.Admission(most_running=0, most_waiting=0, max_wait_s=1))
        refused = call(path, body.encode())
        status, sent, answer = refused.status, refused.headers, refused.json()
    else:
        response = integrator.client.generic(method, path, body, content_type, headers=headers)
        sent = {name.lower(): value for name, value in response.headers.items()}
        status, answer = response.status_code, json.loads(response.content)
    status_line, documented, expected = parse(section.response)
    assert status == section.status == int(status_line.split(" ")[1])
    assert answer == json.loads(expected) == {"detail": section.detail}
    assert {name.lower() for name in documented} <= sent.keys()
    assert integrator.debits() == debits


@pytest.mark.once
def test_the_methods_of_the_page_get_past_the_http_server(serve: Callable[..., Service]) -> None:
    """The test client has none, and knows every method."""
    service = serve()
    documented = {section.request.split(" ")[0] for section in SECTIONS if section.status == 405}
    expected = {"LOOKUP": 400, "post": 400, **dict.fromkeys(documented, 405)}
    found = {}
    for method in expected:
        with closing(http.client.HTTPConnection("127.0.0.1", service.port, timeout=60)) as connection:
            connection.request(method, "/callerid/search")
            found[method] = connection.getresponse().status
    assert found == expected
