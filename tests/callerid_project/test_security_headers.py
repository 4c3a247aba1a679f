"""What a browser may do with an answer: nothing, unless it is a page."""

from collections.abc import Callable
from typing import Any

import pytest
import requests
from django.test import Client

from callerid_project import announce, wsgi
from tests.api import Integrator
from tests.service import Service

STRICT = {"default-src": "'none'", "base-uri": "'none'", "form-action": "'none'", "frame-ancestors": "'none'"}
HOME = {**STRICT, "script-src": "'self'", "style-src": "'self'", "img-src": "'self'", "connect-src": "'self'"}
DOCS = {**HOME, "img-src": "'self' data:"}
ADMIN = {
    **DOCS,
    "script-src": "'self' 'unsafe-eval'",
    "style-src": "'self' 'unsafe-inline'",
    "font-src": "'self'",
    "form-action": "'self'",
}


def policy(response: Any) -> dict[str, str]:
    parts = response.headers["Content-Security-Policy"].split("; ")
    return {name: value for name, _, value in (part.partition(" ") for part in parts)}


@pytest.mark.parametrize(("path", "expected"), [("/", HOME), ("/docs", DOCS), ("/docs?script=", DOCS)])
def test_a_page_gets_what_it_needs_and_no_more(client: Client, path: str, expected: dict[str, str]) -> None:
    assert policy(client.get(path)) == expected


def test_json_gets_the_strictest(client: Client, integrator: Integrator) -> None:
    answers = {
        200: integrator.search(),
        400: integrator.search("1"),
        401: integrator.send({}),
        404: client.get("/nowhere"),
        405: client.get("/callerid/search"),
    }
    assert {status: answer.status_code for status, answer in answers.items()} == {status: status for status in answers}
    others = [client.get("/schema"), client.get("/livez"), client.post("/"), client.post("/docs")]
    others.append(client.get("/", headers={"Host": "elsewhere.test"}))
    for answer in [*answers.values(), *others]:
        assert policy(answer) == STRICT
        assert answer.headers["Referrer-Policy"] == "same-origin"


def test_the_admin_gets_its_own_on_pages_and_on_errors(admin_client: Client, client: Client) -> None:
    pages = [admin_client.get("/admin/"), admin_client.get("/admin/nowhere/"), Client().get("/admin/login/")]
    pages.append(Client(enforce_csrf_checks=True).post("/admin/login/"))
    assert [page.status_code for page in pages] == [200, 404, 200, 403]
    for page in pages:
        assert policy(page) == ADMIN
        assert page.headers["Referrer-Policy"] == "same-origin"
    assert policy(client.get("/administration/")) == STRICT


def test_an_error_before_any_middleware_has_the_strictest(monkeypatch: pytest.MonkeyPatch) -> None:
    def explode(*args: Any) -> Any:
        raise RuntimeError

    sent: dict[str, str] = {}
    monkeypatch.setattr(wsgi, "django_application", explode)
    wsgi.application({}, lambda status, headers, error: sent.update(headers))
    assert sent["Content-Security-Policy"].count("'none'") == len(STRICT)


def test_a_moved_admin_takes_its_policy_along(serve: Callable[..., Service]) -> None:
    service = serve(ADMIN_PATH="ops/desk")

    def get(path: str) -> requests.Response:
        return requests.get(service.url + path, allow_redirects=False, timeout=10)

    for path in ("/admin/", "/admin/login/", "/ops/"):
        gone = get(path)
        assert (gone.status_code, gone.json(), policy(gone)) == (404, {"detail": "Not found."}, STRICT)
    login = get("/ops/desk/login/")
    assert (login.status_code, policy(login)) == (200, ADMIN)
    assert get("/ops/desk/").headers["Location"].startswith("/ops/desk/login/")
    assert 'href="/ops/desk/"' in get("/").text


def test_the_printed_address_of_the_admin_follows(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "http://127.0.0.1:8000/admin/" in announce.message("127.0.0.1", 8000, None)
    monkeypatch.setenv("ADMIN_PATH", "/ops/desk/")
    said = announce.message("127.0.0.1", 8000, None)
    assert "http://127.0.0.1:8000/ops/desk/\n" in said
    assert "/admin/" not in said
