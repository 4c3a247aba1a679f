"""HTTP as the server speaks it: its limits, its errors in JSON, and that no client delays another."""

import json
from collections.abc import Iterator

import pytest

from callerid_project.http_protocol import MAX_HEADER_BYTES
from tests.api import NUMBER
from tests.load import create_tokens
from tests.raw_http import Connection, request
from tests.service import Service, serving

pytestmark = [pytest.mark.once, pytest.mark.slow]

EMBEDDED = {"DATABASE_URL": "", "REDIS_URL": ""}
KNOWS = {"SOURCE_A": "tests.connectors.Knows", "SOURCE_B": "tests.connectors.Knows"}
LIVEZ = request("/livez")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    shared, environment = tmp_path_factory.getbasetemp(), {**EMBEDDED, **KNOWS, "RATE_LIMIT": "1000000/m"}
    with serving(tmp_path_factory.mktemp("http"), environment, shared=shared) as service:
        yield service


@pytest.fixture(scope="module")
def impatient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Headers must arrive within half a second."""
    shared, module = tmp_path_factory.getbasetemp(), ("tests.impatient_server",)
    with serving(tmp_path_factory.mktemp("impatient"), EMBEDDED, shared=shared, module=module) as service:
        yield service


def search(service: Service) -> bytes:
    (key,) = create_tokens(service, 1)
    return request("/callerid/search", json.dumps({"api_key": key, "query": NUMBER}).encode())


def refusal(connection: Connection) -> tuple[int, str]:
    """Status and detail of the response, behind which the server closes the connection."""
    answer = connection.read()
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["connection"] == "close"
    assert connection.is_closed()
    (detail,) = answer.json().values()
    return answer.status, detail


@pytest.mark.parametrize(
    "sent",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
        b"GET /livez HTTP/9.9\r\n\r\n",
        b"post /callerid/search HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"CANARY /livez HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHost: localhost\r\nno colon\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX-A: a\0b\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"GET /livez?q=\xff HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /?q=\xff HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "GET /straße HTTP/1.1\r\nHost: localhost\r\n\r\n".encode(),
    ],
)
def test_what_is_not_http_gets_400_as_json(service: Service, sent: bytes) -> None:
    with Connection(service.port) as connection:
        assert refusal(connection.send(sent)) == (400, "Malformed HTTP request")


@pytest.mark.parametrize("path", ["/%ff", "/livez%ff", "/%00", "/%C3%A4", "//livez", "/callerid/search/%2e", "*"])
def test_strange_paths_get_404_as_json(service: Service, path: str) -> None:
    with Connection(service.port) as connection:
        answer = connection.send(request(path)).read()
        assert (answer.status, answer.json()) == (404, {"detail": "Not found."})


@pytest.mark.parametrize("path", ["/livez?q=%ff", "/?q=%ff", "/callerid/search?q=%ff%00"])
def test_query_that_is_no_utf_8_changes_nothing(service: Service, path: str) -> None:
    with Connection(service.port) as connection:
        assert connection.send(request(path)).read().status == (405 if "search" in path else 200)


@pytest.mark.parametrize("value", ["localhost:x", "\xff", "a b", ""])
def test_malformed_host_header_gets_400_as_json(service: Service, value: str) -> None:
    with Connection(service.port) as connection:
        for path in ("/livez", "/callerid/search", "/docs"):
            connection.send(f"GET {path} HTTP/1.1\r\nHost: {value}\r\n\r\n".encode("latin-1"))
            answer = connection.read()
            assert (answer.status, answer.json()) == (400, {"detail": "Bad request"})


@pytest.mark.parametrize("line", [b"X-Short: a\r\n", b"a" * 1_000])
def test_endless_headers_get_431(service: Service, line: bytes) -> None:
    with Connection(service.port) as connection:
        connection.send(LIVEZ).read()  # the limit is that of each request
        head = b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX-Long: "
        # Not a byte more than the limit allows: what the server has not read would reset the connection.
        connection.send((head + line * MAX_HEADER_BYTES)[: MAX_HEADER_BYTES + 1])
        assert refusal(connection) == (431, "Request headers too large")


def test_headers_of_almost_64_kib_are_accepted(service: Service) -> None:
    with Connection(service.port) as connection:
        for _ in range(3):
            connection.send(request("/livez", None, "X-Long: " + "a" * (MAX_HEADER_BYTES - 1_000)))
            assert connection.read().status == 200


@pytest.mark.parametrize("sent", [b"", b"GET /livez HTTP/1.1\r\nHost: loc"])
def test_headers_that_do_not_arrive_get_408(impatient: Service, sent: bytes) -> None:
    with Connection(impatient.port) as connection:
        assert refusal(connection.send(sent)) == (408, "Request headers not received in time")
    with Connection(impatient.port) as connection:
        assert connection.send(LIVEZ).read().status == 200
        assert refusal(connection.send(sent or b"G")) == (408, "Request headers not received in time")


def test_pipelined_requests_are_answered_in_order(service: Service) -> None:
    sent = search(service)
    with Connection(service.port) as connection:
        connection.send(b"".join([sent, LIVEZ, sent, request("/docs"), sent, request("/nowhere")]))
        answers = [connection.read() for _ in range(3)]
        assert [answer.status for answer in answers] == [200, 200, 200]
        assert answers[1].json() == {"status": "ok"}
        assert [answers[n].json()["credits_remaining"] for n in (0, 2)] == [9_999, 9_998]
        assert b"swagger" in connection.read().body
        assert connection.read().json()["credits_remaining"] == 9_997
        assert connection.read().status == 404


@pytest.mark.parametrize("upgrade", ["h2c", "websocket"])
def test_a_search_with_upgrade_is_refused(service: Service, upgrade: str) -> None:
    """The server drops its body."""
    lines = (f"Upgrade: {upgrade}", "Connection: Upgrade")
    body = search(service).partition(b"\r\n\r\n")[2]
    with Connection(service.port) as connection:
        answer = connection.send(request("/callerid/search", body, *lines)).read()
        assert (answer.status, answer.json()) == (400, {"detail": "Malformed JSON body"})
        assert connection.is_closed()


@pytest.mark.parametrize("path", ["/livez", "/docs"])
def test_other_paths_ignore_an_upgrade(service: Service, path: str) -> None:
    """As the first request of `curl --http2`. The server reads nothing more from such a connection."""
    with Connection(service.port) as connection:
        answer = connection.send(request(path, None, "Upgrade: h2c", "Connection: Upgrade, HTTP2-Settings")).read()
        assert (answer.status, answer.headers["connection"]) == (200, "close")
        assert connection.is_closed()


def test_header_names_with_underscores_are_dropped(service: Service) -> None:
    """X_Forwarded_For would be X-Forwarded-For to Django: a proxy that sets the one lets the other pass."""
    with Connection(service.port) as connection:
        for path in ("/livez", "/docs"):
            answer = connection.send(request(path, None, "X_Request_ID: forged")).read()
            assert answer.headers["x-request-id"] != "forged"
            answer = connection.send(request(path, None, "X-Request-ID: kept", "X_Request_ID: forged")).read()
            assert answer.headers["x-request-id"] == "kept"
        assert connection.send(request("/metrics", None, "X_Forwarded_For: 192.0.2.1")).read().status == 200
        assert connection.send(request("/metrics", None, "X-Forwarded-For: 192.0.2.1")).read().status == 404


def test_errors_of_the_server_are_logged_without_values(service: Service) -> None:
    with Connection(service.port) as connection:
        refusal(connection.send(f"GET /{NUMBER} HTTP/1.1\r\neyJhbGciOiJIUzI1NiJ9.e30.AAAA\r\n\r\n".encode()))
    log = service.log()
    assert NUMBER not in log
    assert "eyJhbGciOiJIUzI1NiJ9" not in log
    assert "Traceback" not in log
