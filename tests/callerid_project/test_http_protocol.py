"""HTTP as the server speaks it: its limits, its errors in JSON, and that no client delays another."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from callerid_project.http_protocol import (
    MAX_BODY_PIECES,
    MAX_FRAMING_BYTES,
    MAX_HEADER_BYTES,
    MAX_HEADERS,
    LimitedProtocol,
)
from callerid_project.serve import bind
from tests.api import NUMBER
from tests.callerid_project.test_overload import Transport
from tests.load import create_tokens
from tests.raw_http import Connection, chunk, request
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
        b"POST /callerid/search HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + b"0" * 4_301 + b"\r\n\r\n",
        b"GET /livez\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello",  # HTTP/0.9 to the parser
        b"GET /livez HTTP/0.9\r\nHost: localhost\r\n\r\n",
        b"GET /livez HTTP/2.0\r\nHost: localhost\r\n\r\n",
        b"GET /livez HTTP/1.1\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX-A: a\r\n b\r\n\r\n",
        b"GET /livez HTTP/1.1\nHost: localhost\r\n\r\n",
        b"GET /livez HTTP/1.1\r\nHost: localhost\n\r\n",
        b"POST /livez HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        b"POST /livez HTTP/1.0\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
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
            assert "transfer-encoding" not in answer.headers  # HTTP/1.0 has no chunks


@pytest.mark.parametrize(
    ("target", "host", "status"),
    [
        ("http://localhost/livez", "evil.example", 200),
        ("http://localhost:80/livez?a=http://evil.example/", "evil.example", 200),
        ("http://evil.example/livez", "localhost", 400),
        ("http://localhost@evil.example/livez", "localhost", 400),
        ("/livez?a=http://evil.example/", "localhost", 200),
    ],
)
def test_host_of_a_whole_url_replaces_the_header(service: Service, target: str, host: str, status: int) -> None:
    with Connection(service.port) as connection:
        answer = connection.send(f"GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()).read()
        assert answer.status == status


def test_http_1_0_needs_no_host_and_gets_no_100(service: Service) -> None:
    sent = search(service).replace(b"HTTP/1.1\r\nHost: localhost\r\n", b"HTTP/1.0\r\nExpect: 100-continue\r\n")
    with Connection(service.port) as connection:
        assert connection.send(sent).read().status == 200
        assert connection.is_closed()


@pytest.mark.parametrize("line", [b"X-Short: " + b"a" * 300 + b"\r\n", b"a" * 1_000])
def test_endless_headers_get_431(service: Service, line: bytes) -> None:
    with Connection(service.port) as connection:
        connection.send(LIVEZ).read()  # the limit is that of each request
        head = b"GET /livez HTTP/1.1\r\nHost: localhost\r\nX-Long: "
        # Not a byte more than the limit allows: what the server has not read would reset the connection.
        connection.send((head + line * MAX_HEADER_BYTES)[: MAX_HEADER_BYTES + 1])
        assert refusal(connection) == (431, "Request headers too large")


def test_headers_of_almost_32_kib_are_accepted(service: Service) -> None:
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


def test_too_many_headers_get_431(service: Service) -> None:
    with Connection(service.port) as connection:
        lines = [f"X-{n}: a" for n in range(MAX_HEADERS - 1)]  # and Host
        assert connection.send(request("/livez", None, *lines)).read().status == 200
        connection.send(request("/livez", None, *lines, "X-More: a"))
        assert refusal(connection) == (431, "Too many request headers")


def test_the_size_of_headers_is_limited_within_one_read(service: Service) -> None:
    """The rest of what has arrived may be a body."""
    for body, status in ((b"a" * 40_000, 413), (None, 431)):
        with Connection(service.port) as connection:
            lines = [f"X-Long: {'a' * (MAX_HEADER_BYTES if body is None else 1_000)}"]
            connection.send(request("/callerid/search", body, *lines))
            assert connection.read().status == status


def test_content_types_of_many_lines_are_one(service: Service) -> None:
    """Django joins them, and parses the whole in quadratic time."""
    lines = ['Content-Type: a/b;a="' + ";" * 200, *["Content-Type: " + ";" * 100] * 150]
    with Connection(service.port) as connection:
        for path in ("/livez", "/docs"):
            assert connection.send(request(path, None, *lines)).read().status == 200


def test_connect_is_refused(service: Service) -> None:
    with Connection(service.port) as connection:
        connection.send(b"CONNECT /" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n" + b"b" * 30_000)
        assert refusal(connection) == (405, "Method not allowed.")


def test_another_transfer_coding_than_chunked_is_refused(service: Service) -> None:
    head, body = search_head(service, "Transfer-Encoding: gzip, chunked")
    with Connection(service.port) as connection:
        answer = connection.send(head + chunk(body) + chunk(b"")).read()
        assert (answer.status, answer.json()) == (400, {"detail": "Malformed JSON body"})


def test_a_connection_that_was_reset_is_forgotten() -> None:
    """uvicorn's timer would keep it, and its request, until the keep-alive time is over."""

    async def check() -> None:
        config = uvicorn.Config("callerid_project.asgi:application", log_config=None)
        config.load()
        protocol = LimitedProtocol(config, ServerState(), {})
        protocol.connection_made(Transport())
        protocol.timeout_keep_alive_task = timer = asyncio.get_running_loop().call_later(600, lambda: None)
        protocol.connection_lost(ConnectionResetError())
        assert timer.cancelled()

    asyncio.run(check())


def test_an_idle_connection_keeps_nothing_of_its_request() -> None:
    path, scopes = f"/{'a' * 30_000}", list[dict[str, Any]]()

    async def application(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        scopes.append(scope)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"1")]})
        await send({"type": "http.response.body", "body": b"x"})

    async def check() -> None:
        config = uvicorn.Config(application, http=LimitedProtocol, lifespan="off", log_config=None)
        server, bound = uvicorn.Server(config), bind("127.0.0.1", 0)
        running = asyncio.ensure_future(server.serve(sockets=[bound]))
        while not server.started:
            await asyncio.sleep(0.01)
        reader, writer = await asyncio.open_connection(*bound.getsockname())
        for _ in range(2):  # the next request is answered as the first
            writer.write(request(path))
            assert (await reader.readuntil(b"x")).startswith(b"HTTP/1.1 200")
        (protocol,) = server.server_state.connections
        assert [scope["path"] for scope in scopes] == [path] * 2
        assert path not in repr(vars(protocol))
        writer.close()
        server.should_exit = True
        await running

    asyncio.run(check())


CHUNKED = ("Transfer-Encoding: chunked",)


def search_head(service: Service, *lines: str) -> tuple[bytes, bytes]:
    """The headers of a search, and its body."""
    body = search(service).partition(b"\r\n\r\n")[2]
    return request("/callerid/search", b"", *lines), body


@pytest.mark.parametrize(
    "trailer", [b"X-Forwarded-For: 192.0.2.9\r\n\r\n", b"Idempotency-Key: a\r\n\r\n", b"a:\r\n" * 5_000]
)
def test_trailers_are_refused(service: Service, trailer: bytes) -> None:
    head, body = search_head(service, *CHUNKED)
    with Connection(service.port) as connection:
        connection.send(head + chunk(body) + b"0\r\n" + trailer)
        assert refusal(connection) == (400, "Trailers are not accepted")


TOO_MUCH = b"b" * (MAX_HEADER_BYTES + MAX_FRAMING_BYTES)


@pytest.mark.parametrize("sent", [b"5;a=" + TOO_MUCH, b"0\r\na: " + TOO_MUCH, chunk(b" ") * MAX_BODY_PIECES])
def test_what_surrounds_a_body_is_limited(service: Service, sent: bytes) -> None:
    """Also where the parser calls nothing, because what it reads has no end."""
    head, body = search_head(service, *CHUNKED)
    with Connection(service.port) as connection:
        connection.send(head + chunk(body) + sent)
        assert refusal(connection) == (400, "Malformed HTTP request")


def test_each_chunk_may_have_an_extension(service: Service) -> None:
    head, body = search_head(service, *CHUNKED)
    chunks = b"".join(b"1;a=%b\r\n%c\r\n" % (b"b" * 20, byte) for byte in body)
    with Connection(service.port) as connection:
        for _ in range(3):  # the limit is that of each request
            assert connection.send(head + chunks + chunk(b"")).read().status == 200


def test_the_connection_ends_after_a_pipelined_request(service: Service) -> None:
    """The client sends again what had no response."""
    sent = search(service)
    for more in (sent, LIVEZ, b"\x16\x03\x01", b"x" * 100_000):
        with Connection(service.port) as connection:
            answer = connection.send(sent + more).read()
            assert answer.status == 200
            assert connection.is_closed()
    with Connection(service.port) as connection:
        assert connection.send(sent).read().json()["credits_remaining"] == 9_995


def test_empty_lines_between_requests_are_ignored(service: Service) -> None:
    with Connection(service.port) as connection:
        for _ in range(3):
            assert connection.send(b"\r\n" + LIVEZ + b"\r\n\r\n").read().status == 200


@pytest.mark.parametrize("path", ["/livez", "/docs"])
def test_other_paths_ignore_an_upgrade(service: Service, path: str) -> None:
    """As the first request of `curl --http2`."""
    with Connection(service.port) as connection:
        for _ in range(2):
            connection.send(request(path, None, "Upgrade: h2c", "Connection: Upgrade, HTTP2-Settings"))
            assert connection.read().status == 200


@pytest.mark.parametrize("upgrade", ["h2c", "websocket"])
@pytest.mark.parametrize("pieces", [1, 40])
def test_a_search_with_upgrade_is_answered(service: Service, upgrade: str, pieces: int) -> None:
    lines = (f"Upgrade: {upgrade}", "Connection: Upgrade, HTTP2-Settings", "HTTP2-Settings: AAEAAEAAAAIAAAAB")
    body = search(service).partition(b"\r\n\r\n")[2]
    with_length = request("/callerid/search", body, *lines)
    chunked = request("/callerid/search", b"", *CHUNKED, *lines) + chunk(body) + chunk(b"")
    with Connection(service.port) as connection:
        for left, sent in enumerate([with_length, chunked] * 3, start=-5):
            step = -(-len(sent) // pieces)
            for at in range(0, len(sent), step):
                connection.send(sent[at : at + step])
            answer = connection.read()
            assert (answer.status, answer.json().get("credits_remaining")) == (200, 9_994 - left)


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
