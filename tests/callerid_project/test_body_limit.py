"""Outside the API, bodies that are large or multipart are refused before anything parses them."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from tests.asgi import call
from tests.raw_http import Connection, chunk, request
from tests.service import Service

KIB = 1024
OPEN, FORM = 16 * KIB, 64 * KIB
# Without the cookie the CSRF check rejects the request before it reads the body for the form's token.
CSRF_COOKIE = "csrftoken=" + "x" * 32
URLENCODED = "application/x-www-form-urlencoded"
PAGES = ("/admin/login/", "/admin/", "/", "/docs", "/schema", "/nowhere")


@pytest.mark.once
@pytest.mark.parametrize("chunked", [False, True], ids=["with a length", "chunked"])
def test_a_large_upload_is_refused_before_its_end(serve: Callable[..., Service], chunked: bool) -> None:
    service = serve()
    kind = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {50 * KIB * KIB}"
    for path in PAGES:
        body = b"x" * ((FORM if "admin" in path else OPEN) + 1)
        head = request(path, b"", kind, f"Cookie: {CSRF_COOKIE}", content_type=URLENCODED)
        with Connection(service.port) as connection:
            assert connection.send(head + (chunk(body) if chunked else body)).read().status == 413, path


@pytest.mark.parametrize("path", PAGES)
def test_no_page_reads_a_multipart_body(db: None, path: str) -> None:
    """Its parts could have parameters in codecs that Python would remember forever."""
    answer = call(path, b"--b\r\na;b*=x''\r\n\r\n--b--", Content_Type="multipart/form-data; boundary=b")
    assert answer.status == 415
    if not path.startswith("/admin/"):
        assert answer.json() == {"detail": "Unsupported media type."}


@pytest.mark.parametrize("path", PAGES)
def test_a_longer_body_reaches_no_page_without_a_login(db: None, path: str) -> None:
    answer = call(path, b" " * (OPEN + 1), Content_Type=URLENCODED)
    if path.startswith("/admin/"):
        assert answer.status == 403
        assert b"You are logged out" in answer.body
    else:
        assert answer.status == 413
        assert answer.json() == {"detail": "Request body too large"}
    assert answer.headers["x-request-id"]


@pytest.mark.parametrize("content_type", [URLENCODED, "application/octet-stream"])
@pytest.mark.parametrize(("size", "status"), [(FORM, 404), (FORM + 1, 413)])
@pytest.mark.django_db(transaction=True)  # a page runs in a thread of its own
def test_longer_bodies_need_a_login(admin_client: Client, content_type: str, size: int, status: int) -> None:
    cookies = "; ".join(f"{name}={cookie.value}" for name, cookie in admin_client.cookies.items())
    fields = {"Cookie": f"{cookies}; {CSRF_COOKIE}", "X-CSRFToken": "x" * 32, "Content-Type": content_type}
    sent: dict[str, Any] = {name.replace("-", "_"): value for name, value in fields.items()}
    body = b"&".join([b"x" * 999] * (size // 1000)).ljust(size, b"&")
    assert call("/admin/nowhere/", body, **sent).status == status
    assert call("/admin/nowhere/", body, **sent | {"Cookie": CSRF_COOKIE}).status == (403 if size == FORM else 413)


def test_a_form_of_almost_16_kib_is_read_without_a_login(db: None) -> None:
    fields = {f"field{n}": "x" * 1_000 for n in range(15)}
    response = Client().post("/admin/login/", {"username": "x", "password": "x", **fields})
    assert response.status_code == 200
    assert "Please enter the correct" in response.text
