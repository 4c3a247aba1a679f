"""Outside the API, large bodies and files are rejected before they are read or stored, without a login."""

from collections.abc import Callable

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from callerid_project.middleware import MAX_FIELD
from tests.asgi import call
from tests.raw_http import Connection, chunk, request
from tests.service import Service

MIB = 1024 * 1024
# Without the cookie the CSRF check rejects the request before it reads the body for the form's token.
CSRF_COOKIE = "csrftoken=" + "x" * 32
HEAD = b'--b\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\n'


@pytest.mark.once
@pytest.mark.parametrize("chunked", [False, True], ids=["with a length", "chunked"])
def test_a_large_upload_is_refused_before_its_end(serve: Callable[..., Service], chunked: bool) -> None:
    service = serve()
    kind = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {50 * MIB}"
    body = HEAD.ljust(MIB + 1, b"x")
    for path in ("/admin/login/", "/admin/", "/", "/docs", "/schema", "/nowhere"):
        head = request(path, b"", kind, f"Cookie: {CSRF_COOKIE}", content_type="multipart/form-data; boundary=b")
        with Connection(service.port) as connection:
            assert connection.send(head + (chunk(body) if chunked else body)).read().status == 413, path


@pytest.mark.parametrize("path", ["/admin/login/", "/admin/", "/admin/accounts/apitoken/add/", "/admin/nowhere/"])
def test_file_uploads_are_rejected(db: None, path: str) -> None:
    client = Client(enforce_csrf_checks=True, headers={"Cookie": CSRF_COOKIE})
    response = client.post(path, {"file": SimpleUploadedFile("x", b"x")})
    assert response.status_code == 400
    assert response["Content-Type"].startswith("text/html")


@pytest.mark.parametrize("path", ["/admin/login/", "/", "/docs", "/nowhere"])
def test_a_body_over_1_mib_reaches_no_page(path: str) -> None:
    answer = call(path, b" " * (MIB + 1))
    assert answer.status == 413
    if path.startswith("/admin/"):
        assert b"Request body too large" in answer.body
    else:
        assert answer.json() == {"detail": "Request body too large"}
    assert answer.headers["x-request-id"]


def test_a_form_of_almost_1_mib_is_still_read(db: None) -> None:
    fields = {f"field{n}": "x" * MAX_FIELD for n in range((MIB - 20_000) // MAX_FIELD)}
    response = Client().post("/admin/login/", {"username": "x", "password": "x", **fields})
    assert response.status_code == 200
    assert "Please enter the correct" in response.text
