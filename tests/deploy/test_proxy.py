"""The shipped nginx configuration, in front of two hosts."""

import contextlib
import http.client
import json
import logging
import re
import shutil
import socket
import ssl
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import urllib3

from callerid_project.logging import DIGITS, JWT, UUID
from tests.deploy.installation import NAME, NGINX_CONF, Installation
from tests.reliability import LONG
from tests.request_ids import KEPT, MALFORMED, SECRET
from tests.servers import Unavailable, required

pytestmark = [pytest.mark.once, pytest.mark.slow, pytest.mark.reliability]

log = logging.getLogger(__name__)
NUMBER = "493023125042"
HEAD = f"POST /callerid/search HTTP/1.1\r\nHost: {NAME}\r\nContent-Type: application/json\r\n"


def test_a_search_passes_with_its_id_address_and_scheme(installed: Installation, key: str) -> None:
    said = installed.nginx.test().splitlines()
    warnings = [line for line in said if "successful" not in line and "is ok" not in line]
    assert warnings == []
    client = installed.client()
    for sent, kept in [("call-42", True), (NUMBER, False), ("", False)]:
        answer = installed.search(key, NUMBER, client, **({"X_Request_ID": sent} if sent else {}))
        assert answer.status == 200, answer.data
        request_id = answer.headers["X-Request-ID"]
        assert (request_id == sent) is kept
        logged = installed.nginx.log_until(request_id)[-1]
        assert (logged["request_id"], logged["route"], logged["status"]) == (request_id, "callerid/search", "200")
        assert installed.rows(f"SELECT 1 FROM accounts_creditentry WHERE request_id = '{request_id}'")
    # The service reads X-Forwarded-Proto: HTTPS-only headers, and a form that comes from an https page.
    page = client.request("GET", "/admin/login/")
    assert "max-age" in page.headers["Strict-Transport-Security"]
    token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page.data.decode())
    assert token is not None
    headers = {"Host": NAME, "Origin": f"https://{NAME}", "Cookie": page.headers["Set-Cookie"].partition(";")[0]}
    form = {"csrfmiddlewaretoken": token[1], "username": "nobody", "password": "wrong"}
    assert client.request_encode_body("POST", "/admin/login/", form, headers, encode_multipart=False).status == 200
    text = (installed.nginx.directory / "callerid.log").read_text()
    assert NUMBER not in text
    assert "127.0.0.1" not in text


def test_request_ids_are_those_that_the_service_accepts(installed: Installation) -> None:
    """nginx's error pages have the id that it would hand on, and the service keeps that of nginx."""
    shipped = NGINX_CONF.read_text()
    assert f'"~{DIGITS}"' in shipped
    assert f'"~{JWT}"' in shipped
    assert f'"~^{UUID}$"' in shipped
    client = installed.client()
    for sent in [*KEPT, *SECRET, *MALFORMED]:
        for path in ("/metrics", "/livez"):
            got = client.request("GET", path, headers={"Host": NAME, "X-Request-ID": sent}).headers["X-Request-ID"]
            assert (got == sent) is (sent in KEPT), sent
            assert installed.nginx.log_until(got)
    written = (installed.nginx.directory / "callerid.log").read_text()
    assert not [sent for sent in SECRET if f'"request_id":"{sent}"' in written]


ERRORS = [
    (b"GET /livez HTTP/1.1\r\nHost: %b\r\nA: %b\r\n\r\n" % (NAME.encode(), b"x" * 9_000), 400, "GET"),
    (b"GET /livez HTTP/1.1\r\nHost: %b\r\nHost: %b\r\n\r\n" % (NAME.encode(), NAME.encode()), 400, "GET"),
    (b"nonsense\r\n\r\n", 400, "other"),
    (b"GET livez HTTP/1.1\r\nHost: %b\r\n\r\n" % NAME.encode(), 400, "GET"),
    (b"post /callerid/search HTTP/1.1\r\nHost: %b\r\n\r\n" % NAME.encode(), 400, "other"),
    (b"GET /callerid HTTP/1.1\r\nHost: %b\r\n\r\n" % NAME.encode(), 404, "GET"),
    (b"GET /callerid-error/405 HTTP/1.1\r\nHost: %b\r\n\r\n" % NAME.encode(), 404, "GET"),
    (b"GET /callerid-repeatable HTTP/1.1\r\nHost: %b\r\n\r\n" % NAME.encode(), 404, "GET"),
    (b"GET /metrics HTTP/1.1\r\nHost: %b\r\n\r\n" % NAME.encode(), 404, "GET"),
    (b"TRACE /livez HTTP/1.1\r\nHost: %b\r\n\r\n" % NAME.encode(), 405, "TRACE"),
    (b"GET /%b HTTP/1.1\r\nHost: %b\r\n\r\n" % (b"x" * 9_000, NAME.encode()), 414, "GET"),
    (b"POST /callerid/search HTTP/1.1\r\nHost: %b\r\nTransfer-Encoding: x\r\n\r\n" % NAME.encode(), 500, "POST"),
    (b"GET /livez HTTP/9.9\r\nHost: %b\r\n\r\n" % NAME.encode(), 500, "GET"),
]


@pytest.mark.parametrize(("request_bytes", "status", "method"), ERRORS)
def test_errors_of_nginx_are_json_with_a_request_id(
    installed: Installation, request_bytes: bytes, status: int, method: str
) -> None:
    with _tls(installed) as connection:
        connection.sendall(request_bytes)
        answer = http.client.HTTPResponse(connection)
        answer.begin()
        body = answer.read()
    assert answer.status == status
    assert answer.headers["Content-Type"] == "application/json"
    assert list(json.loads(body)) == ["detail"]
    logged = installed.nginx.log_until(answer.headers["X-Request-ID"])[-1]
    assert (logged["status"], logged["method"]) == (str(status), method)


@pytest.mark.parametrize("version", ["--http1.1", "--http2"])
def test_log_has_the_method_of_a_refused_request(installed: Installation, version: str) -> None:
    """An error page of nginx is a GET inside."""
    with required():
        if (curl := shutil.which("curl")) is None:
            raise Unavailable("there is no curl on PATH")
    command = [curl, "--silent", "--insecure", version, "--resolve", f"{NAME}:443:127.0.0.1", "--data-binary", "@-"]
    form = ["--output", "-", "--write-out", "%{http_version} %header{x-request-id}", f"https://{NAME}/callerid/search"]
    done = subprocess.run([*command, *form], input=b"x" * 70_000, capture_output=True, check=True)
    detail, _, rest = done.stdout.decode().partition("}")
    assert "Request body too large" in detail
    used, request_id = rest.split()
    assert used == version.removeprefix("--http")
    logged = installed.nginx.log_until(request_id)[-1]
    assert (logged["method"], logged["status"], logged["route"]) == ("POST", "413", "callerid/search")


@pytest.mark.parametrize("chunked", [False, True])
def test_a_truncated_body_is_not_handed_on(installed: Installation, key: str, chunked: bool) -> None:
    body = json.dumps({"api_key": key, "query": NUMBER}).encode()
    chunk = b"%x\r\n%b\r\n" % (len(body), body)
    searches = "SELECT count(*) FROM accounts_creditentry WHERE kind = 'search'"
    before = installed.rows(searches)
    for ends_tls in (False, True):
        with _tls(installed) as connection:
            if chunked:
                connection.sendall(
                    f"{HEAD}Transfer-Encoding: chunked\r\n\r\n{len(body):x}\r\n".encode() + body + b"\r\n"
                )
            else:
                connection.sendall(f"{HEAD}Content-Length: 5000\r\n\r\n".encode() + body)
            if ends_tls:
                with contextlib.suppress(OSError):
                    connection.unwrap()
            else:
                connection.shutdown(socket.SHUT_WR)
                with contextlib.suppress(OSError):
                    assert connection.recv(12) in (b"", b"HTTP/1.1 400")
    assert installed.rows(searches) == before
    if chunked:  # a whole one is searched: nginx gives it a length
        with _tls(installed) as connection:
            connection.sendall(f"{HEAD}Transfer-Encoding: chunked\r\n\r\n".encode() + chunk + b"0\r\n\r\n")
            assert connection.recv(12) == b"HTTP/1.1 200"


def test_many_slow_clients_of_an_address_harm_no_other(installed: Installation, key: str) -> None:
    """More than nginx has connections (768). It needs a second to end those that it refuses, and ends slow ones after
    10 s: the limit of the address is tried as soon as it is reached."""
    with contextlib.ExitStack() as opened:

        def open_slow(count: int) -> None:
            for _ in range(count):
                time.sleep(0.004)
                connection = opened.enter_context(_tls(installed, source="127.0.0.9"))
                connection.sendall(f"{HEAD}Content-Length: 99\r\n\r\n{{".encode())

        open_slow(150)
        answer = installed.search(key, NUMBER, installed.client("127.0.0.9"))
        assert (answer.status, answer.json()) == (503, {"detail": "Service overloaded"})
        assert answer.headers["Retry-After"] == "1"
        assert installed.nginx.log_until(answer.headers["X-Request-ID"])[-1]["route"] == "callerid/search"
        open_slow(869)
        for _ in range(20):
            assert installed.search(key, NUMBER, installed.client("127.0.0.3")).status == 200


def test_a_slow_tls_handshake_is_ended(installed: Installation) -> None:
    """nginx's default is 60 s."""
    with socket.create_connection(("127.0.0.1", 443), timeout=30) as connection:
        connection.sendall(b"\x16\x03\x01\x02\x00")  # the beginning of a ClientHello
        assert connection.recv(1) == b""


def test_a_forged_forwarding_header_is_not_believed(installed: Installation) -> None:
    """AUTH_FAILURE_RATE counts by client address."""
    one, other = installed.client("127.0.0.2"), installed.client("127.0.0.3")
    for forged, expected in enumerate([401, 401, 401, 429]):
        answer = installed.search("x", NUMBER, one, X_Forwarded_For=f"198.51.100.{forged}")
        assert answer.status == expected
    # An underscore gives WSGI the same name as a hyphen: nginx drops it.
    headers = {"Host": NAME, "Content-Type": "application/json", "X_Forwarded_For": "198.51.100.9"}
    assert one.request("POST", "/callerid/search", body=b'{"api_key": "x"}', headers=headers).status == 429
    assert installed.search("x", NUMBER, other).status == 401


def test_what_must_not_pass_is_refused(installed: Installation, key: str) -> None:
    body = json.dumps({"api_key": key, "query": NUMBER}).encode()
    plain = http.client.HTTPConnection("127.0.0.1", 80, timeout=10)
    plain.request("POST", "/callerid/search", body, {"Host": NAME, "Content-Type": "application/json"})
    with pytest.raises(ConnectionResetError):  # or its subclass RemoteDisconnected: the body may have been sent late
        plain.getresponse()

    client = installed.client()
    assert client.request("GET", "/metrics").status == 404
    assert client.request("GET", "/metrics/").status == 404
    for path, size in (("/callerid/search", 64 * 1024), ("/admin/login/", 512 * 1024), ("/docs", 64 * 1024)):
        answer = client.request("POST", path, body=b"x" * (size + 1))
        assert (answer.status, answer.json()) == (413, {"detail": "Request body too large"})
    answer = client.request("POST", "/callerid/search", body=b'"' + b"x" * 20_000 + b'"', headers=_json())
    assert (answer.status, answer.json()) == (413, {"detail": "Request body too large"})
    assert answer.headers["X-Request-ID"]  # the service's own limit

    with socket.create_connection(("127.0.0.1", 443), timeout=30) as unencrypted:
        unencrypted.sendall(f"GET /livez HTTP/1.1\r\nHost: {NAME}\r\n\r\n".encode())
        assert b'\r\n\r\n{"detail":"Bad request"}' in unencrypted.recv(4096)
    assert installed.search(key, NUMBER, client, X_Request_ID="before").status == 200
    for wrong in ("other.example.com", "127.0.0.1"):
        with pytest.raises(urllib3.exceptions.ProtocolError):
            client.request("GET", "/livez", headers={"Host": wrong})
    for version in (b"1.0", b"1.1"):  # no Host header
        with _tls(installed) as connection:
            connection.sendall(b"GET /livez HTTP/%b\r\n\r\n" % version)
            assert connection.recv(4096) == b""
    for refused in (
        b"nonsense\r\n\r\n",
        b"TRACE /livez HTTP/1.1\r\nHost: other.example.com\r\n\r\n",
        b"GET /livez HTTP/9.9\r\nHost: other.example.com\r\n\r\n",
        b"GET /.well-known/acme-challenge/none HTTP/1.1\r\nHost: other.example.com\r\n\r\n",
    ):
        assert _plain(refused) == b"", refused
    with _tls(installed) as connection:
        connection.sendall(b"TRACE /livez HTTP/1.1\r\nHost: other.example.com\r\n\r\n")
        assert connection.recv(4096) == b""
    with pytest.raises(ssl.SSLError), _tls(installed, "other.example.com"):
        pass
    assert installed.search(key, NUMBER, client, X_Request_ID="after").status == 200
    assert [line["request_id"] for line in installed.nginx.log_until("after")][-2] == "before"


def _plain(request_bytes: bytes) -> bytes:
    """What nginx answers on the port of plain HTTP."""
    with socket.create_connection(("127.0.0.1", 80), timeout=30) as connection:
        connection.sendall(request_bytes)
        return connection.recv(4096)


def test_an_acme_challenge_is_answered_without_tls(installed: Installation) -> None:
    challenge = installed.nginx.directory / "html" / ".well-known" / "acme-challenge" / "token"
    challenge.parent.mkdir(parents=True)
    challenge.write_text("answer")
    request = f"GET /.well-known/acme-challenge/token HTTP/1.1\r\nHost: {NAME}\r\n\r\n"
    assert _plain(request.encode()).endswith(b"\r\n\r\nanswer")


def _json() -> dict[str, str]:
    return {"Host": NAME, "Content-Type": "application/json"}


def _tls(installed: Installation, name: str = NAME, source: str = "127.0.0.1") -> ssl.SSLSocket:
    raw = socket.create_connection(("127.0.0.1", 443), timeout=30, source_address=(source, 0))
    try:
        return installed.nginx.trust.wrap_socket(raw, server_hostname=name)
    except BaseException:
        raw.close()
        raise


def test_slow_clients_are_not_ended_for_others(installed: Installation, key: str) -> None:
    with contextlib.ExitStack() as opened:
        slow = [opened.enter_context(_tls(installed)) for _ in range(20)]
        for connection in slow:
            connection.sendall(HEAD.encode() + b'Content-Length: 99\r\n\r\n{"api_key"')
        assert installed.search(key, NUMBER, installed.client()).status == 200
        for connection in slow:  # nginx has not ended one to make room
            connection.setblocking(False)
            with pytest.raises(ssl.SSLWantReadError):
                connection.recv(1)


def upload(installed: Installation, header: str, chunk: bytes, count: int) -> int:
    """Send up to `count` chunks of a body; the status that ends it, 0 where the connection is reset."""
    with _tls(installed) as connection:
        connection.settimeout(60)
        try:
            connection.sendall(f"{HEAD}{header}\r\n\r\n".encode())
            for _ in range(count):
                connection.sendall(chunk)
        except OSError:  # nginx has answered, and closed the connection
            pass
        with contextlib.suppress(OSError):
            return int(connection.recv(12)[9:12] or 0)
        return 0


def test_slow_and_endless_clients_delay_no_other(installed: Installation, key: str) -> None:
    client, body = installed.client(), b"x" * 65536
    chunked = b"%x\r\n%b\r\n" % (len(body), body)

    def p99_s() -> float:
        durations = []
        for _ in range(200):
            began = time.monotonic()
            assert installed.search(key, NUMBER, client).status == 200
            durations.append(time.monotonic() - began)
        return sorted(durations)[197]

    before_s = p99_s()
    with contextlib.ExitStack() as opened, ThreadPoolExecutor(2) as uploads:
        for n in range(500 if LONG else 100):
            slow = opened.enter_context(_tls(installed, source=f"127.0.1.{n % 100}"))
            slow.sendall(f"{HEAD}Content-Length: 99\r\n\r\n{{".encode())
        ten_gb = 10 * 2**30
        sent = [
            uploads.submit(upload, installed, f"Content-Length: {ten_gb}", body, ten_gb // len(body)),
            uploads.submit(upload, installed, "Transfer-Encoding: chunked", chunked, ten_gb // len(body)),
        ]
        meanwhile_s = p99_s()
        assert {each.result() for each in sent} <= {413, 0}
    log.info("99th percentile: %.1f ms alone, %.1f ms beside slow clients", before_s * 1000, meanwhile_s * 1000)
    if LONG:
        assert meanwhile_s <= 2 * before_s


def test_a_request_to_upgrade_keeps_its_body(installed: Installation, key: str) -> None:
    """nginx does not forward Upgrade, with which the HTTP server would drop the body."""
    answer = installed.search(
        key, NUMBER, installed.client(), Connection="Upgrade, HTTP2-Settings", Upgrade="h2c", HTTP2_Settings="AAMAAABk"
    )
    assert (answer.status, answer.json()["success"]) == (200, True)
