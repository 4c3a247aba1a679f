"""Outside the API, large bodies and files are rejected before they are read or stored, without a login."""

import contextlib
import io
import select
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from callerid_project.middleware import MAX_FIELD
from tests.service import Service

MIB = 1024 * 1024
TOTAL = 50 * MIB
PIECE = b"x" * 65_536
# Without the cookie the CSRF check rejects the request before it reads the body for the form's token.
CSRF_COOKIE = "csrftoken=" + "x" * 32
HEAD = b'--b\r\nContent-Disposition: form-data; name="file"; filename="x"\r\n\r\n'


def pieces(*, chunked: bool) -> Iterator[bytes]:
    """A multipart body with a file of 50 MiB."""
    for piece in (HEAD, *[PIECE] * (TOTAL // len(PIECE)), b"\r\n--b--\r\n"):
        yield b"%x\r\n%s\r\n" % (len(piece), piece) if chunked else piece
    if chunked:
        yield b"0\r\n\r\n"


def send(service: Service, path: str, temporary: Path, *, chunked: bool) -> tuple[bytes, int, int]:
    """The response, the bytes of the body sent before it arrived, and the maximum stored in `temporary`."""
    length = b"Transfer-Encoding: chunked" if chunked else b"Content-Length: %d" % (len(HEAD) + TOTAL + 9)
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nCookie: {CSRF_COOKIE}\r\n".encode()
    head += b"Content-Type: multipart/form-data; boundary=b\r\n" + length
    answer, sent, stored = b"", 0, 0
    with socket.create_connection(("127.0.0.1", service.port), timeout=30) as sock:
        sock.sendall(head + b"\r\n\r\n")
        body = pieces(chunked=chunked)
        waiting = b""
        # A server that rejects the request closes the connection while the client is still sending.
        with contextlib.suppress(ConnectionError):
            while not answer:
                waiting = waiting or next(body, b"")
                readable, writable, _ = select.select([sock], [sock] if waiting else [], [], 30)
                if readable:
                    answer = sock.recv(65_536)
                    break
                assert writable, "the service neither reads nor answers"
                try:
                    count = sock.send(waiting)
                except ConnectionError:  # its response arrived meanwhile
                    answer = sock.recv(65_536)
                    break
                waiting, sent = waiting[count:], sent + count
                stored = max(stored, sum(file.stat().st_size for file in temporary.iterdir()))
    return answer, sent, stored


@pytest.fixture
def temporary(tmp_path: Path) -> Path:
    directory = tmp_path / "temporary"
    directory.mkdir()
    return directory


@pytest.mark.once
@pytest.mark.parametrize("chunked", [False, True], ids=["with a length", "chunked"])
def test_an_upload_without_a_login_is_not_stored(serve: Callable[..., Service], temporary: Path, chunked: bool) -> None:
    service = serve(TMPDIR=str(temporary))
    for path in ("/admin/login/", "/admin/", "/", "/docs", "/schema", "/nowhere"):
        answer, sent, stored = send(service, path, temporary, chunked=chunked)
        assert stored == 0, path
        assert answer.startswith(b"HTTP/1.1 413 "), path
        assert sent < TOTAL / 2, path


@pytest.mark.parametrize("path", ["/admin/login/", "/admin/", "/admin/accounts/apitoken/add/", "/admin/nowhere/"])
def test_file_uploads_are_rejected(db: None, path: str) -> None:
    client = Client(enforce_csrf_checks=True, headers={"Cookie": CSRF_COOKIE})
    response = client.post(path, {"file": SimpleUploadedFile("x", b"x")})
    assert response.status_code == 400
    assert response["Content-Type"].startswith("text/html")


@pytest.mark.parametrize("path", ["/admin/login/", "/", "/docs", "/nowhere"])
def test_a_body_over_1_mib_is_not_read(db: None, path: str) -> None:
    body = io.BytesIO(b" " * (MIB + 1))
    environ: dict[str, Any] = {"wsgi.input": body, "CONTENT_LENGTH": str(MIB + 1), "HTTP_COOKIE": CSRF_COOKIE}
    response = Client(enforce_csrf_checks=True).post(path, **environ)
    assert response.status_code == 413
    assert body.tell() == 0
    if path.startswith("/admin/"):
        assert "Request body too large" in response.text
    else:
        assert response.json() == {"detail": "Request body too large"}
    assert response["X-Request-ID"]


def test_a_form_of_almost_1_mib_is_still_read(db: None) -> None:
    fields = {f"field{n}": "x" * MAX_FIELD for n in range((MIB - 20_000) // MAX_FIELD)}
    response = Client().post("/admin/login/", {"username": "x", "password": "x", **fields})
    assert response.status_code == 200
    assert "Please enter the correct" in response.text
