"""The Content-Security-Policy: browsers may load nothing, except for pages."""

from collections.abc import Callable
from typing import Any

import pytest
import requests
from django.test import Client

from callerid_project import announce, page_handler
from tests.api import Integrator
from tests.asgi import call
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
def test_each_page_gets_only_what_it_needs(client: Client, path: str, expected: dict[str, str]) -> None:
    assert policy(client.get(path)) == expected


def test_json_gets_the_strict_policy(client: Client, integrator: Integrator) -> None:
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


def test_admin_pages_and_errors_get_the_admin_policy(admin_client: Client, client: Client) -> None:
    pages = [admin_client.get("/admin/"), admin_client.get("/admin/nowhere/"), Client().get("/admin/login/")]
    pages.append(Client(enforce_csrf_checks=True).post("/admin/login/"))
    assert [page.status_code for page in pages] == [200, 404, 200, 403]
    for page in pages:
        assert policy(page) == ADMIN
        assert page.headers["Referrer-Policy"] == "same-origin"
    assert policy(client.get("/administration/")) == STRICT


def test_an_error_of_the_event_loop_has_the_strict_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_handler, "MAX_PAGES", 0)
    for answer in (call("/livez"), call("/livez", Host="elsewhere.test"), call("/docs")):
        assert answer.headers["content-security-policy"].count("'none'") == len(STRICT)
        assert answer.headers["referrer-policy"] == "same-origin"


def test_the_admin_policy_follows_admin_path(serve: Callable[..., Service]) -> None:
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


def test_the_printed_admin_url_follows_admin_path(settings: Any) -> None:
    assert "http://127.0.0.1:8000/admin/\n" in announce.message()
    settings.ADMIN_PATH = "ops/desk"
    assert "http://127.0.0.1:8000/ops/desk/\n" in announce.message()
    assert "/admin/" not in announce.message()


def test_without_a_demo_token_it_says_how_to_make_one(settings: Any) -> None:
    settings.EMBEDDED = False
    said = announce.message()
    assert all(word in said for word in ("<API_KEY>", "./run manage create_token", "./run manage createsuperuser"))


@pytest.mark.parametrize(
    ("allowed", "printed"),
    [(["caller.test", "127.0.0.1"], ""), (["*"], ""), ([".caller.test"], " -H 'Host: caller.test'")],
)
def test_the_printed_request_names_a_host_that_is_allowed(settings: Any, allowed: list[str], printed: str) -> None:
    settings.ALLOWED_HOSTS = allowed
    assert f"/callerid/search{printed} -H 'Content-Type: " in announce.message()
