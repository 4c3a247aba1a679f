"""uvicorn's HTTP protocol with the checks and limits that it lacks: of headers, of what surrounds a body, and of the
time for headers and for reading a response; with a stop that answers requests on their way, and with a refusal that
costs little.

A proxy in front has its own limits. Without one, a client that sends a header byte by byte, or without end, or that
does not read its response, would keep a connection and memory for ever.
"""

import asyncio
import enum
import json
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

#: As nginx, and twice as many header fields as Apache by default.
MAX_HEADER_BYTES, MAX_HEADERS = 32 * 1024, 200
#: What a chunked body may have beside its data: sizes and extensions of chunks, which reach no callback of the parser.
MAX_FRAMING_BYTES = 16 * 1024
#: Of a body, as chunks or as they arrive: each costs a call.
MAX_BODY_PIECES = 4096
HEADER_TIMEOUT_S = 10.0
#: The digits of the longest Content-Length that the parser can count.
MAX_LENGTH_DIGITS = 20
#: How long the client may leave a response unread that fills the buffers. A client that reads nothing at all is
#: disconnected earlier (serve.py).
WRITE_TIMEOUT_S = 60.0
#: How long a stopping server keeps an idle connection. A proxy has to stop using one earlier: nginx after 2 s
#: (deploy/nginx/callerid.conf).
IDLE_AT_STOP_S = 2.5


class Phase(enum.Enum):
    """What the next byte of a connection belongs to."""

    HEADERS = enum.auto()
    BODY = enum.auto()
    #: Nothing: the request is complete, and its response is not.
    RESPONSE = enum.auto()


MALFORMED = (b"400 Bad Request", "Malformed HTTP request")
HEADERS_TOO_LARGE = (b"431 Request Header Fields Too Large", "Request headers too large")


class RefusedInput(Exception):
    """Ends the parser: what it would read next is not accepted."""


class _Parser(httptools.HttpRequestParser):
    """Parses a request with `Upgrade` like others: a server may ignore that field (RFC 9110, section 7.8)."""

    def __init__(self, protocol: "LimitedProtocol") -> None:
        super().__init__(protocol)
        self._protocol = protocol

    def feed_data(self, data: bytes) -> None:  # type: ignore[override]
        try:
            super().feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._protocol.parse_without_upgrade(data[upgrade.args[0] :])


class LimitedProtocol(HttpToolsProtocol):
    """What it refuses, and what is not HTTP, gets a JSON body as every other error does.

    A connection has one request at a time: what a client sends before it has its response is ignored, and the
    connection ends after that response. Clients that pipeline send the rest again (RFC 9112, section 9.3.2).

    `overload_response` in the state of the ASGI lifespan is called with method, URL and headers of a request. It
    returns the whole response to one that the overloaded process refuses, and that the application does not get; else
    None.
    """

    _stopping = False
    #: Whether all further data is dropped: the request is refused, or its response is the last one.
    _ignores_input = False
    #: Status and detail of the error, if it is not the parser's own.
    _refusal = MALFORMED
    #: The response to a refused request whose body is still to arrive.
    _pending_refusal: bytes | None = None
    _write_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.parser = _Parser(self)
        self._phase = Phase.HEADERS
        self._begun = False
        #: Bytes of this request beside the data of its body.
        self._overhead = 0
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        self._stop_write_timer()
        if self.timeout_keep_alive_task is not None:  # uvicorn leaves it after a reset, and with it all of the request
            self.timeout_keep_alive_task.cancel()
        super().connection_lost(exc)

    # --- Request ---------------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        if self._ignores_input:
            return
        if self._phase is Phase.RESPONSE and self._is_idle():
            self._phase, self._begun = Phase.HEADERS, False
        self._overhead += len(data)
        super().data_received(data)
        if self._phase is Phase.HEADERS and self._header_timer is None:
            self._start_timer()
        if self._phase is Phase.HEADERS or self._pending_refusal is not None:
            if self._overhead > MAX_HEADER_BYTES:
                self._close_with_error(*HEADERS_TOO_LARGE)
        elif self._overhead > MAX_HEADER_BYTES + MAX_FRAMING_BYTES:
            self._close_with_error(*MALFORMED)

    def on_message_begin(self) -> None:
        if self._begun:  # pipelined: not even the refusal of an overloaded server costs nothing
            raise RefusedInput
        self._begun = True
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._phase is Phase.BODY:  # a trailer must never count as a header
            self._refuse(b"400 Bad Request", "Trailers are not accepted")
        if len(self.headers) == MAX_HEADERS:
            self._refuse(b"431 Request Header Fields Too Large", "Too many request headers")
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if self.parser.get_method() == b"CONNECT":
            self._refuse(b"405 Method Not Allowed", "Method not allowed.")
        if self.parser.should_upgrade():
            return
        self._require_http_1()
        # What has arrived may be more than the headers.
        if self._overhead > MAX_HEADER_BYTES and self._header_bytes() > MAX_HEADER_BYTES:
            self._refuse(*HEADERS_TOO_LARGE)
        self._phase = Phase.BODY
        if self._can_refuse():
            overload_response = self.app_state["overload_response"]
            self._pending_refusal = overload_response(self.parser.get_method(), self.url, self.headers)
            if self._pending_refusal is not None:
                return  # the header size limit and timeout also apply to the body of a refused request
        self._pieces = 0
        self._stop_timer()
        super().on_headers_complete()
        if self._stopping and self.cycle is not None:
            self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        if self._pending_refusal is None:
            self._overhead -= len(body)
            self._pieces += 1
            if self._pieces > MAX_BODY_PIECES:
                raise RefusedInput
            super().on_body(body)

    def on_message_complete(self) -> None:
        if self.parser.should_upgrade():
            return
        self._phase, self._overhead = Phase.RESPONSE, 0
        response, self._pending_refusal = self._pending_refusal, None
        if response is None:
            super().on_message_complete()
            return
        self._stop_timer()
        if self._stopping or self.flow.write_paused:  # the latter of a client that does not read its responses
            self.transport.write(response.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n", 1))
            self.transport.close()
        else:
            self.transport.write(response)
        self.on_response_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._phase is Phase.RESPONSE:  # an idle connection would keep all of its last request
            self.cycle = None  # type: ignore[assignment]
            self.scope, self.headers, self.url = {}, [], b""  # type: ignore[typeddict-item]

    def parse_without_upgrade(self, rest: bytes) -> None:
        """Parse the headers that have arrived again, without `Upgrade`, and then `rest`. The parser takes what follows
        `Upgrade` for another protocol's."""
        start = b"%b %b HTTP/%b\r\n" % (self.parser.get_method(), self.url, self.parser.get_http_version().encode())
        lines = b"".join(b"%b: %b\r\n" % header for header in self.headers if header[0] != b"upgrade")
        self.parser, self._begun = _Parser(self), False
        self.parser.feed_data(start + lines + b"\r\n" + rest)

    def _refuse(self, status: bytes, detail: str) -> None:
        """End the parser, and then the connection with this error."""
        self._refusal = (status, detail)
        raise RefusedInput

    def _require_http_1(self) -> None:
        """Refuse what the parser accepts and RFC 9112 does not: other versions (section 2.3), another number of Host
        fields than one (3.2) and a transfer coding in HTTP/1.0 (6.1). Refuse a Content-Length of more than
        MAX_LENGTH_DIGITS digits too: its zeros may be thousands, and `int` raises ValueError above 4,300 digits. The
        host of a whole URL replaces Host (3.2.2), and HTTP/1.0 has no `Expect` (RFC 9110, section 10.1.1)."""
        version, names = self.parser.get_http_version(), [name for name, _ in self.headers]
        if any(name == b"content-length" and len(value) > MAX_LENGTH_DIGITS for name, value in self.headers):
            self._refuse(*MALFORMED)
        fewest_hosts = {"1.0": 0, "1.1": 1}.get(version, 2)
        if not fewest_hosts <= names.count(b"host") <= 1 or (version == "1.0" and b"transfer-encoding" in names):
            self._refuse(*MALFORMED)
        self.expect_100_continue &= version == "1.1"
        scheme, is_whole, rest = self.url.partition(b"://")
        if is_whole and scheme.isalpha():
            others = [header for header in self.headers if header[0] != b"host"]
            self.headers[:] = [*others, (b"host", rest.partition(b"/")[0])]

    def _header_bytes(self) -> int:
        return len(self.url) + sum(len(name) + len(value) + len(": \r\n") for name, value in self.headers)

    def _can_refuse(self) -> bool:
        """Whether this request could be refused by a response that never changes. Others go to the application, which
        refuses them itself."""
        return (
            "overload_response" in self.app_state
            and not (self._stopping or self.expect_100_continue)
            and self.parser.should_keep_alive()
            and self.parser.get_http_version() == "1.1"
        )

    def _is_idle(self) -> bool:
        """Whether the application answers no request of this connection."""
        return self.cycle is None or self.cycle.response_complete

    # --- Response, stop, errors ------------------------------------------------------------------------------------

    def pause_writing(self) -> None:
        super().pause_writing()
        self._write_timer = self.loop.call_later(WRITE_TIMEOUT_S, self.transport.abort)

    def resume_writing(self) -> None:
        self._stop_write_timer()
        super().resume_writing()

    def shutdown(self) -> None:
        """Close the connection after the response in progress; where there is none, after the next one or the time for
        that, because a request may be on its way."""
        self._stopping = True
        if self._pending_refusal is not None:
            return
        if not self._is_idle():
            super().shutdown()
            return
        stop_timeout_s = self.config.timeout_graceful_shutdown
        idle_s = IDLE_AT_STOP_S if stop_timeout_s is None else min(IDLE_AT_STOP_S, stop_timeout_s / 2)
        self.loop.call_later(idle_s, super().shutdown)

    def send_400_response(self, msg: str) -> None:
        """Also called by uvicorn for what its parser refuses."""
        self._close_with_error(*self._refusal)

    def _start_timer(self) -> None:
        self._header_timer: asyncio.TimerHandle | None = self.loop.call_later(
            HEADER_TIMEOUT_S, self._close_with_error, b"408 Request Timeout", "Request headers not received in time"
        )

    def _stop_timer(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    def _stop_write_timer(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def _close_with_error(self, status: bytes, detail: str) -> None:
        self._stop_timer()
        self._ignores_input = True
        if self.transport.is_closing():
            return
        if self._phase is Phase.RESPONSE:  # the error is not that request's, which is being answered or was refused
            if self._is_idle():
                self.transport.close()
            else:
                self.cycle.keep_alive = False
            return
        body = json.dumps({"detail": detail}).encode()
        headers: dict[bytes, Any] = {
            b"content-type": b"application/json",
            b"content-length": b"%d" % len(body),
            b"cache-control": b"no-store",
            b"x-content-type-options": b"nosniff",
            b"connection": b"close",
        }
        lines = [b"HTTP/1.1 " + status, *(name + b": " + value for name, value in headers.items()), b"", body]
        self.transport.write(b"\r\n".join(lines))
        self.transport.close()
