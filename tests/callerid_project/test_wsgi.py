"""What happens before Django: headers and bodies that it cannot handle do not reach it."""

import io
import json
from collections.abc import Callable
from typing import Any

import pytest
import requests

from callerid_project import wsgi
from callerid_project.admission import Admission
from tests.service import Service

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


@pytest.mark.parametrize("value", KEPT)
def test_safe_content_types_are_unchanged(value: str) -> None:
    assert wsgi.safe_content_type(value) == value


@pytest.mark.parametrize("value", HOSTILE)
def test_harmful_parameters_are_replaced(value: str) -> None:
    assert wsgi.safe_content_type(value) == "application/json; charset=unsupported"


def test_an_overlong_content_type_is_replaced() -> None:
    assert wsgi.safe_content_type("application/json;" + "x" * 50_000) == "application/octet-stream"


@pytest.mark.once
def test_header_names_with_underscores_are_accepted(serve: Callable[..., Service]) -> None:
    """docs/proxy.md relies on it: the server treats X_Request_ID as X-Request-ID."""
    answer = requests.get(f"{serve().url}/livez", headers={"X_Request_ID": "not-dropped"}, timeout=30)
    assert answer.headers["X-Request-ID"] == "not-dropped"


def call(body: bytes = b"{}", **environ: Any) -> tuple[int, dict[str, str], Any]:
    told: list[Any] = []
    answer = wsgi.application(
        {
            "REQUEST_METHOD": "POST",
            "PATH_INFO": "/callerid/search",
            "SERVER_NAME": "localhost",
            "SERVER_PORT": "80",
            "HTTP_HOST": "localhost",
            "REMOTE_ADDR": "127.0.0.1",
            "CONTENT_TYPE": "application/json",
            "CONTENT_LENGTH": str(len(body)),
            "wsgi.input": io.BytesIO(body),
            "wsgi.errors": io.StringIO(),
            "wsgi.url_scheme": "http",
            **environ,
        },
        lambda *arguments: told.append(arguments),
    )
    status, headers = told[-1][:2]
    return int(status[:3]), dict(headers), json.loads(b"".join(answer))


@pytest.mark.parametrize("value", HOSTILE)
def test_a_hostile_content_type_is_400(value: str) -> None:
    status, headers, answer = call(CONTENT_TYPE=value)
    assert (status, answer) == (400, {"detail": "Malformed JSON body"})
    assert headers["X-Request-ID"]


def test_an_error_before_django_is_json_500(monkeypatch: pytest.MonkeyPatch) -> None:
    def explode(*args: Any) -> None:
        raise ValueError("canary")

    monkeypatch.setattr(wsgi, "django_application", explode)
    status, headers, answer = call()
    assert (status, answer) == (500, {"detail": "Internal server error"})
    assert {"X-Request-ID", "X-Content-Type-Options", "Cache-Control"} <= set(headers)


@pytest.mark.parametrize(("sent", "kept"), [("call-42", True), ("not well-formed", False)])
def test_overload_is_503_with_the_common_headers(
    monkeypatch: pytest.MonkeyPatch, db: None, sent: str, kept: bool
) -> None:
    monkeypatch.setattr(wsgi, "admission", Admission(threads=0, max_queued=0, max_wait_s=1))
    status, headers, answer = call(HTTP_X_REQUEST_ID=sent)
    assert (status, answer) == (503, {"detail": "Service overloaded"})
    assert headers["Retry-After"] == "1"
    assert headers["Cache-Control"] == "no-store"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert (headers["X-Request-ID"] == sent) is kept
    assert headers["X-Request-ID"]
    for path in ("/livez", "/livez/"):
        assert call(REQUEST_METHOD="GET", PATH_INFO=path)[::2] == (200, {"status": "ok"})


class Endless(io.BytesIO):
    def read(self, size: int | None = -1) -> bytes:
        raise AssertionError("the rest of the body may never come")


def test_a_health_check_does_not_read_a_body(db: None) -> None:
    sent = {**chunked(b""), "wsgi.input": Endless(), "REQUEST_METHOD": "POST", "PATH_INFO": "/livez"}
    assert call(**sent)[0] == 405


def chunked(body: bytes) -> dict[str, Any]:
    return {"wsgi.input_terminated": True, "HTTP_TRANSFER_ENCODING": "chunked", "CONTENT_LENGTH": "", "body": body}


@pytest.mark.parametrize("path", ["/callerid/search", "/nowhere"])
def test_a_chunked_body_is_refused_unread(path: str) -> None:
    assert call(**{**chunked(b""), "wsgi.input": Endless(), "PATH_INFO": path})[0] == 400
