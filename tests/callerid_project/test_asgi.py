"""What happens before Django: headers and bodies that it cannot handle do not reach it."""

import json
from typing import Any

import pytest

from callerid_project import asgi, page_handler
from core import admission
from tests.api import Integrator
from tests.asgi import call
from tests.metrics import here

KEPT = [
    "",
    "application/json",
    "application/json; charset=utf-8",
    'application/json;CHARSET="UTF-8"',
    "application/json; x=1",
    "application/json*",
    "multipart/form-data; boundary=----WebKitFormBoundary7MA4YWxkTrZu0gW",
]
HOSTILE = [
    "application/json; charset*=utf-8''%00",
    "application/json; charset*=bogus''%41",
    "application/json; charset*0*=''; charset*=x",
    "application/json; charset=utf-7",
    "application/json; charset=",
    "application/json; charset=utf-8; charset=utf-7",
    "application/json; charset=x" + "a" * 100,
]
SEARCH = "/callerid/search"


@pytest.fixture
def _nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "searches", admission.Admission(most_running=0, most_waiting=0, max_wait_s=1))
    monkeypatch.setattr(page_handler, "MAX_PAGES", 0)


@pytest.mark.parametrize("value", KEPT)
def test_safe_content_types_are_unchanged(value: str) -> None:
    assert asgi.safe_content_type(value) == value


@pytest.mark.parametrize("value", HOSTILE)
def test_harmful_parameters_are_replaced(value: str) -> None:
    assert asgi.safe_content_type(value) == "application/json; charset=unsupported"


def test_an_overlong_content_type_is_replaced() -> None:
    assert asgi.safe_content_type("application/json;" + "x" * 50_000) == "application/octet-stream"


@pytest.mark.parametrize("value", HOSTILE)
def test_a_hostile_content_type_is_400(db: None, value: str) -> None:
    answer = call(SEARCH, b"{}", Content_Type=value)
    assert (answer.status, answer.json()) == (400, {"detail": "Malformed JSON body"})
    assert answer.headers["x-request-id"]


@pytest.mark.parametrize("path", [SEARCH, f"{SEARCH}/"])
def test_a_search_on_the_loop_is_that_of_django(integrator: Integrator, path: str) -> None:
    body = json.dumps({"api_key": integrator.key, "query": "493023125042"}).encode()
    expected = integrator.search()
    answer = call(path, body)
    assert answer.status == expected.status_code == 200
    assert answer.json() == expected.json() | {"credits_remaining": 8}
    names = {name.lower() for name in expected.headers}
    assert answer.headers.keys() == names
    for name in names - {"x-request-id", "ratelimit", "server-timing", "content-length"}:
        assert answer.headers[name] == expected.headers[name]
    assert integrator.debits() == 2


def test_an_error_outside_views_is_json_500(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    async def explode(*args: Any) -> None:
        raise ValueError("canary")

    (match,) = {id(match): match for path, match in asgi.LOOP_VIEWS.items() if path == "/livez"}.values()
    monkeypatch.setattr(match.func, "on_loop", explode)
    answer = call("/livez")
    assert (answer.status, answer.json()) == (500, {"detail": "Internal server error"})
    assert {"x-request-id", "x-content-type-options", "cache-control", "content-security-policy"} <= set(answer.headers)
    assert [record.getMessage() for record in caplog.records if record.exc_info] == ["unhandled error"]


@pytest.mark.parametrize(("sent", "kept"), [("call-42", True), ("not well-formed", False)])
@pytest.mark.parametrize(("path", "body"), [(SEARCH, b"{}"), ("/docs", None)])
@pytest.mark.usefixtures("_nothing_runs")
def test_overload_is_503_with_the_common_headers(path: str, body: bytes | None, sent: str, kept: bool) -> None:
    answer = call(path, body, X_Request_ID=sent)
    assert (answer.status, answer.json()) == (503, {"detail": "Service overloaded"})
    assert answer.headers["retry-after"] == "1"
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert (answer.headers["x-request-id"] == sent) is kept
    assert answer.headers["x-request-id"]


@pytest.mark.usefixtures("_nothing_runs")
def test_health_checks_and_metrics_are_answered_in_overload(db: None) -> None:
    before = here().of("callerid_searches_overloaded_total")
    assert call(SEARCH, b"{}").status == 503
    for path in ("/livez", "/livez/", "/readyz", "/readyz/", "/metrics", "/metrics/"):
        assert call(path).status == 200, path
    assert here().of("callerid_searches_overloaded_total") == before + 1


def test_an_incomplete_body_reaches_no_view(db: None) -> None:
    for headers in ({"Content_Length": "3"}, {"Transfer_Encoding": "chunked"}):
        answer = call(SEARCH, b"{}", complete=False, **headers)
        assert (answer.status, answer.json()) == (400, {"detail": "Malformed JSON body"})
        assert answer.headers["connection"] == "close"
