"""Outside the API, large bodies and files are rejected before they are read or stored, without a login."""

from collections.abc import Callable
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from tests.asgi import call
from tests.raw_http import Connection, chunk, request
from tests.service import Service

KIB = 1024
OPEN, FORM, PART = 16 * KIB, 64 * KIB, 256 * KIB
# Without the cookie the CSRF check rejects the request before it reads the body for the form's token.
CSRF_COOKIE = "csrftoken=" + "x" * 32
HEAD = b'--b\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\n'
PAGES = ("/admin/login/", "/admin/", "/", "/docs", "/schema", "/customer/x", "/nowhere")


@pytest.mark.once
@pytest.mark.parametrize("chunked", [False, True], ids=["with a length", "chunked"])
def test_a_large_upload_is_refused_before_its_end(serve: Callable[..., Service], chunked: bool) -> None:
    service = serve()
    kind = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {50 * KIB * KIB}"
    for path in PAGES:
        body = HEAD.ljust((FORM if "admin" in path else OPEN) + 1, b"x")
        head = request(path, b"", kind, f"Cookie: {CSRF_COOKIE}", content_type="multipart/form-data; boundary=b")
        with Connection(service.port) as connection:
            assert connection.send(head + (chunk(body) if chunked else body)).read().status == 413, path


@pytest.mark.parametrize("path", ["/admin/login/", "/admin/", "/admin/accounts/apitoken/add/", "/admin/nowhere/"])
def test_file_uploads_are_rejected(db: None, path: str) -> None:
    client = Client(enforce_csrf_checks=True, headers={"Cookie": CSRF_COOKIE})
    response = client.post(path, {"file": SimpleUploadedFile("x", b"x")})
    assert response.status_code == 400
    assert response["Content-Type"].startswith("text/html")


@pytest.mark.parametrize("path", PAGES)
def test_a_longer_body_reaches_no_page_without_a_login(db: None, path: str) -> None:
    answer = call(path, b" " * (OPEN + 1), Content_Type="application/x-www-form-urlencoded")
    assert answer.status == 413
    if path.startswith("/admin/"):
        assert b"Request body too large" in answer.body
    else:
        assert answer.json() == {"detail": "Request body too large"}
    assert answer.headers["x-request-id"]


@pytest.mark.parametrize(
    ("content_type", "size", "status"),
    [
        ("application/x-www-form-urlencoded", FORM, 404),
        ("application/x-www-form-urlencoded", FORM + 1, 413),
        ("application/octet-stream", PART, 404),
        ("application/octet-stream", PART + 1, 413),
        ("application/octet-stream; x=1", PART, 413),
    ],
)
@pytest.mark.django_db(transaction=True)  # a page runs in a thread of its own
def test_longer_bodies_need_a_login(admin_client: Client, content_type: str, size: int, status: int) -> None:
    cookies = "; ".join(f"{name}={cookie.value}" for name, cookie in admin_client.cookies.items())
    fields = {"Cookie": f"{cookies}; {CSRF_COOKIE}", "X-CSRFToken": "x" * 32, "Content-Type": content_type}
    sent: dict[str, Any] = {name.replace("-", "_"): value for name, value in fields.items()}
    body = b"&".join([b"x" * 999] * (size // 1000)).ljust(size, b"&")
    assert call("/admin/nowhere/", body, **sent).status == status
    assert call("/admin/nowhere/", body, **sent | {"Cookie": CSRF_COOKIE}).status == 413


def test_a_form_of_almost_16_kib_is_read_without_a_login(db: None) -> None:
    fields = {f"field{n}": "x" * 1_000 for n in range(15)}
    response = Client().post("/admin/login/", {"username": "x", "password": "x", **fields})
    assert response.status_code == 200
    assert "Please enter the correct" in response.text
