"""Each client in clients/ does what docs/clients.md says: with a scripted server, and with the service."""

import json
import logging
import re
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pytest

from tests import upstream
from tests.clients.drivers import CLIENTS, Outcome, Search
from tests.examples.cases import CASES, DATA, NUMBER, OK, Script, error, proxy_page
from tests.plugin import ROOT
from tests.servers import free_port, required
from tests.service import Service
from tests.upstream import FAULTS, Behaviour, Conversation, Upstream

pytestmark = [pytest.mark.slow, pytest.mark.once]

TOKEN = "eyJhbGciOiJIUzI1NiJ9.eyJqdGkiOiIxIn0.c2lnbmF0dXJl"
BODY = {"success": True, "data": DATA, "credits_remaining": 9}
JSON = "Content-Type: application/json\r\n"
DAY = "Mon, 23 Nov 2026"
PATIENT = {"attempts": 10, "total_timeout_s": 60}
#: The error for each exit code of the examples.
EXIT_CODES = {0: "", 1: "InvalidRequest", 3: "InvalidToken", 4: "NoCredits", 5: "RateLimited", 6: "ServiceFailed"} | {
    7: "Overloaded",
    8: "Unreachable",
}


@dataclass
class Expected:
    """What the server does with each request (the last one repeats), and what the client does then.

    `message`: how the error's begins.
    """

    script: list[Behaviour]
    requests: int
    error: str = ""
    message: str = ""
    waits_s: float = 0
    retry_after: int | None = None
    url_ends: str = ""
    options: dict[str, Any] = field(default_factory=dict)


def of_proxy(status: int, headers: str) -> Behaviour:
    return upstream.raw(b"<html>Not the service</html>", status, f"Content-Type: text/html\r\n{headers}")


def fault(name: str, requests: int, error: str) -> Expected:
    return Expected([FAULTS[name][0]], requests, error)


EXPECTED = {
    name: Expected(
        case.script, case.requests, EXIT_CODES[case.exit_code], case.says if case.exit_code else "", case.waits_s
    )
    for name, case in CASES.items()
} | {
    "a redirect": Expected([upstream.raw(b"", 307, "Location: /elsewhere\r\n")], 1, "InvalidAnswer", "307 Temporary"),
    "a base URL with a path": Expected([OK], 1, url_ends="/prefix/"),
    "429 says how long": Expected([error(429, "x", "60")], 1, "RateLimited", retry_after=60),
    "503 does not say": Expected([error(503, "x")], 1, "Overloaded", retry_after=1, options={"attempts": 1}),
    "one attempt": Expected([error(500, "x"), OK], 1, "ServiceFailed", "500 x", options={"attempts": 1}),
    "a shorter total time": Expected([error(429, "x", "3"), OK], 1, "RateLimited", options={"total_timeout_s": 2.9}),
    "a shorter time for each attempt": Expected([upstream.hangs] * 2 + [OK], 3, options={"attempt_timeout_s": 1}),
    "one byte of the headers at a time": fault("drips headers", 2, "Unreachable"),
    "one byte of the body at a time": fault("drips its body", 2, "Unreachable"),
    "one byte at a time until the end": fault("drips HTTP/1.0", 2, "Unreachable"),
    "no body": fault("hangs after headers", 2, "Unreachable"),
    "a half-closed connection": fault("half-closes", 3, "Unreachable"),
    "not HTTP": fault("not HTTP", 3, "Unreachable"),
    "10 GB": fault("10 GB", 3, "InvalidAnswer"),
    "gzip bomb": fault("gzip bomb", 3, "InvalidAnswer"),
    "invalid JSON": fault("invalid JSON", 3, "InvalidAnswer"),
    "deeper JSON": fault("deeper JSON", 3, "InvalidAnswer"),
    "another shape": fault("another shape", 3, "InvalidAnswer"),
    "204": fault("204", 1, "InvalidAnswer"),
    "a page without a service": Expected([error(404, "Not found.")], 1, "InvalidRequest", "404 Not found."),
    "a status without a name": Expected([upstream.raw(b"", 499)], 1, "InvalidRequest", "499 Unknown status"),
    "the token is echoed": Expected([error(400, f"Unknown {TOKEN}")], 1, "InvalidRequest", "400 Bad Request"),
    "the number is echoed": Expected([error(401, f"No {NUMBER}")], 1, "InvalidToken", "401 Unauthorized"),
    "a proxy while the service restarts": Expected(
        [proxy_page(502), proxy_page(504), proxy_page(502), proxy_page(503), OK], 5, waits_s=1.7, options=PATIENT
    ),
    "500 three times": Expected([error(500, "x")] * 3 + [OK], 3, "ServiceFailed", options=PATIENT),
    "500 between others": Expected(
        [error(500, "x"), proxy_page(502), upstream.resets, error(500, "x"), proxy_page(504), OK], 6, options=PATIENT
    ),
    "waits that grow": Expected([upstream.resets] * 4 + [OK], 5, waits_s=1.2, options=PATIENT),
    "a proxy's rate limit": Expected([of_proxy(429, "Retry-After: 1\r\n"), OK], 2, waits_s=1),
    "429 until a date": Expected(
        [of_proxy(429, f"Date: {DAY} 05:00:00 GMT\r\nRetry-After: {DAY} 05:00:02 GMT\r\n"), OK], 2, waits_s=2
    ),
    "zero seconds": Expected([error(429, "x", "0")] * 2 + [OK], 3, waits_s=0.3),
    "unknown members": Expected([upstream.says({**BODY, "more": 1, "data": {**DATA, "more": [None]}})], 1),
}


@dataclass
class Run:
    outcome: Outcome
    server: Upstream
    script: Script


@pytest.fixture(scope="module")
def log() -> Iterator[list[str]]:
    """What Python's libraries log."""
    records: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: records.append(record.getMessage())  # type: ignore[method-assign]
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield records
    root.removeHandler(handler)
    root.setLevel(level)


@pytest.fixture(scope="module")
def runs(log: list[str]) -> Callable[[str], dict[str, Run]]:
    """Each case with a client. All run at once: most only wait."""

    @cache
    def run(client: str) -> dict[str, Run]:
        scripts = [Script(expected.script) for expected in EXPECTED.values()]
        servers = [Upstream(script).start() for script in scripts]
        try:
            outcomes = CLIENTS[client](
                [
                    Search(server.url + expected.url_ends, TOKEN, NUMBER, **expected.options)
                    for server, expected in zip(servers, EXPECTED.values(), strict=True)
                ]
            )
        finally:
            for server in servers:
                server.stop()
        return dict(zip(EXPECTED, map(Run, outcomes, servers, scripts), strict=True))

    return run


each_client = pytest.mark.parametrize("client", CLIENTS)


@each_client
@pytest.mark.parametrize("name", EXPECTED)
def test_client_does_what_the_docs_say(runs: Callable[[str], dict[str, Run]], client: str, name: str) -> None:
    with required():
        run = runs(client)[name]
    outcome, expected = run.outcome, EXPECTED[name]
    assert (outcome.error, len(run.script.times)) == (expected.error, expected.requests), outcome
    assert outcome.message.startswith(expected.message)
    assert not expected.retry_after or outcome.retry_after == expected.retry_after
    assert run.script.times[-1] - run.script.times[0] >= expected.waits_s
    assert bool(outcome.result) == (not expected.error)
    for secret in (TOKEN, NUMBER):
        assert secret not in outcome.shown
    assert TOKEN not in outcome.frames
    for body in run.server.bodies:
        assert json.loads(body) == {"api_key": TOKEN, "query": NUMBER}
    heads = [head.decode() for head in run.server.heads]
    path = f"{expected.url_ends.rstrip('/')}/callerid/search"
    assert all(head.startswith(f"POST {path} HTTP/1.1\r\n") for head in heads)
    keys = [re.findall(r"(?im)^Idempotency-Key: ([!-~]{36})\r?$", head) for head in heads]
    assert all(len(found) == 1 for found in keys)
    assert len({found[0] for found in keys}) == 1


def test_nothing_logs_a_token_or_a_number(runs: Callable[[str], dict[str, Run]], log: list[str]) -> None:
    runs("python")
    assert any("/callerid/search" in line for line in log)
    assert not [line for line in log if TOKEN in line or NUMBER in line]


@each_client
def test_client_reads_body_and_headers(vendor: Callable[..., Upstream], client: str) -> None:
    headers = (
        f'{JSON}X-Request-ID: request-1\r\nIdempotent-Replayed: true\r\nRateLimit: "token";r=23;t=60\r\n'
        'Server-Timing: source_a;desc="found";dur=12.3, source_b;desc="not-found";dur=0.4\r\n'
    )
    known, bare = vendor(upstream.says(BODY, headers=headers)), vendor(OK)
    echoing = vendor(upstream.says(BODY, headers=f"{JSON}X-Request-ID: {NUMBER}\r\n"))
    search = Search(known.url, TOKEN, NUMBER, idempotency_key="call-17", request_id="request-1")
    with required():
        full, *plain = CLIENTS[client]([search, *(Search(server.url, TOKEN, NUMBER) for server in (bare, echoing))])
    assert full.result == BODY | {
        "request_id": "request-1",
        "rate_limit_remaining": 23,
        "replayed": True,
        "outcomes": {"source_a": "found", "source_b": "not-found"},
    }
    assert [outcome.result for outcome in plain] == [BODY | {"replayed": False, "outcomes": {}}] * 2
    head = known.heads[0].decode().lower()
    assert "\r\nidempotency-key: call-17\r\n" in head
    assert "\r\nx-request-id: request-1\r\n" in head
    version = json.loads((ROOT / "clients" / "javascript" / "package.json").read_text(encoding="utf-8"))["version"]
    assert f"\r\nuser-agent: callerid-client-{client.split(maxsplit=1)[0]}/{version}" in head + "\r\n"


@each_client
def test_numbers_are_sent_as_digits(vendor: Callable[..., Upstream], client: str) -> None:
    sent = {
        "+1 212 555-0142": NUMBER,
        "\uff0b1\u202f212\u2011555\u22120142": NUMBER,
        "\u202a(1) 212.555.0142\u202c\n": NUMBER,
        # Another number without the marks between its digits, which the service refuses.
        "+49 (0)30 23125555": "+49 (0)30 23125555",
        "12125550142.0": "12125550142.0",
        "+1 212 555/0142": "1212555/0142",
        "+1 212 555 0142 ext. 5": "12125550142ext5",
        "anonymous": "anonymous",
    }
    servers = [vendor(OK) for _ in sent]
    with required():
        CLIENTS[client]([Search(server.url, TOKEN, text) for text, server in zip(sent, servers, strict=True)])
    assert [json.loads(server.bodies[0])["query"] for server in servers] == list(sent.values())


@each_client
def test_token_of_a_file_is_sent_without_its_newline(vendor: Callable[..., Upstream], client: str) -> None:
    server = vendor(OK)
    with required():
        CLIENTS[client]([Search(server.url, text, NUMBER) for text in (f"{TOKEN}\n", f"\ufeff {TOKEN}\r\n")])
    assert [json.loads(body)["api_key"] for body in server.bodies] == [TOKEN] * 2


@each_client
def test_client_without_a_server(client: str) -> None:
    with required():
        (outcome,) = CLIENTS[client]([Search(f"http://127.0.0.1:{free_port()}", TOKEN, NUMBER)])
    assert (outcome.error, outcome.status) == ("Unreachable", None)
    assert outcome.message.startswith("No response: ")


@dataclass
class LosesFirstResponse:
    """Passes each request on to the service, and closes the connection instead of passing the first response back."""

    service: Service
    requests: int = 0

    def __call__(self, conversation: Conversation) -> bool:
        head = re.sub(rb"(?im)^Connection: .*\r\n", b"", conversation.head)
        with socket.create_connection(("127.0.0.1", self.service.port)) as sock:
            sock.sendall(head + b"\r\nConnection: close\r\n\r\n" + conversation.body)
            response = b"".join(iter(lambda: sock.recv(65536), b""))
        self.requests += 1
        if self.requests > 1:
            conversation.send(response)
        return False


def test_clients_search_with_the_service(
    serve: Callable[..., Service], vendor: Callable[..., Upstream], subtests: pytest.Subtests
) -> None:
    service = serve()
    service.manage("set_rule", NUMBER, "--spam", "yes", "--name", "Example Bakery")
    for client, run in CLIENTS.items():
        token = service.manage("create_token", client, "--credits", "2", "--quiet").strip()
        with subtests.test(client), required():
            (lost,) = run([Search(vendor(LosesFirstResponse(service)).url, token, NUMBER, total_timeout_s=60)])
            assert (lost.result["replayed"], lost.result["credits_remaining"]) == (True, 1)
            (found,) = run([Search(service.url, token, NUMBER, request_id="request-1")])
            assert found.result["data"]["source_a"] == {"name": "Example Bakery"}
            assert found.result["data"]["source_b"] == {"name": "Example Bakery", "spam": True}
            assert found.result["outcomes"] == {"source_a": "found", "source_b": "found"}
            assert (found.result["credits_remaining"], found.result["request_id"]) == (0, "request-1")
            assert not found.result["replayed"]
            searches = [Search(service.url, token, NUMBER), Search(service.url, "x", NUMBER)]
            failed = run([*searches, Search(service.url, token, "+1 212 555 0142 ext. 5")])
            assert [(outcome.error, outcome.detail) for outcome in failed] == [
                ("NoCredits", "No credits remaining"),
                ("InvalidToken", "Invalid or missing token"),
                ("InvalidRequest", "Invalid phone number (must contain only digits)"),
            ]
            assert all(outcome.request_id for outcome in failed)


#: For each number of docs/test-mode.md: the error, or what each source did.
TEST_NUMBERS: dict[str, str | tuple[str, str]] = {
    "12125550100": ("found", "found"),
    "12125550101": ("found", "not-found"),
    "12125550102": ("not-found", "found"),
    "12125550103": ("found", "found"),
    "12125550104": ("not-found", "not-found"),
    "12125550105": ("found", "found"),
    "12125550106": ("failed", "found"),
    "12125550107": ("found", "failed"),
    "12125550108": "ServiceFailed",
    "12125550109": "NoCredits",
    "12125550110": "RateLimited",
    "12125550111": "Overloaded",
    "12125550112": ("found", "found"),
    "12125550113": ("found", "found"),
}


def test_clients_read_the_answers_of_test_mode(serve: Callable[..., Service], subtests: pytest.Subtests) -> None:
    service = serve(SEARCH_DEADLINE_S="1.5")
    for client, run in CLIENTS.items():
        token = service.manage("create_token", client, "--test", "--quiet").strip()
        with subtests.test(client), required():
            # Two attempts, without a time limit that expires on a busy machine.
            outcomes = run([Search(service.url, token, number, 2, 20, 60) for number in TEST_NUMBERS])
            by_number = dict(zip(TEST_NUMBERS, outcomes, strict=True))
            assert {
                number: outcome.error or tuple(outcome.result["outcomes"].values())
                for number, outcome in by_number.items()
            } == TEST_NUMBERS
            assert by_number["12125550103"].result["data"]["source_b"]["spam"] is True
            assert by_number["12125550100"].result["data"]["source_b"]["spam"] is False
            assert by_number["12125550104"].result["data"]["source_b"] == {}
            assert by_number["12125550110"].retry_after == 1
            assert by_number["12125550111"].retry_after == 1
