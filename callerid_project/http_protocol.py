"""uvicorn's HTTP protocol with the limits that it lacks, of a request's headers in bytes and in time, with a stop that
answers requests on their way, and with a refusal that costs little.

A proxy in front has its own limits. Without one, a client that sends a header byte by byte, or without end, would keep
a connection and memory for ever.
"""

import asyncio
import json
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEADER_BYTES = 64 * 1024
HEADER_TIMEOUT_S = 10.0
#: How long a stopping server keeps an idle connection. A proxy has to stop using one earlier: nginx after 2 s
#: (deploy/nginx/callerid.conf).
IDLE_AT_STOP_S = 2.5


class LimitedProtocol(HttpToolsProtocol):
    """What it refuses, and what is not HTTP, gets a JSON body as every other error does.

    `overload_response` in the state of the ASGI lifespan is called with method, URL and headers of a request. It
    returns the whole response to one that the overloaded process refuses, and that the application does not get; else
    None.
    """

    _stopping = False
    #: The response to a refused request whose body is still to arrive.
    _pending_refusal: bytes | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        #: Of the request whose headers are incomplete; None while one is answered or none has begun.
        self._header_bytes: int | None = 0
        self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._header_bytes is None and self._is_idle():
            self._header_bytes = 0
        if self._header_bytes is not None:
            self._header_bytes += len(data)
        super().data_received(data)
        if self._header_bytes is None:  # the headers have ended within `data`
            return
        if self._header_timer is None:
            self._start_timer()
        if self._header_bytes > MAX_HEADER_BYTES:
            self._close_with_error(b"431 Request Header Fields Too Large", "Request headers too large")

    def on_headers_complete(self) -> None:
        if self._can_refuse():
            overload_response = self.app_state["overload_response"]
            self._pending_refusal = overload_response(self.parser.get_method(), self.url, self.headers)
            if self._pending_refusal is not None:
                return  # the header size limit and timeout also apply to the body of a refused request
        self._header_bytes = None
        self._stop_timer()
        if self.timeout_keep_alive_task is not None:  # of a refusal before it, in the same data
            self.timeout_keep_alive_task.cancel()
        super().on_headers_complete()
        if self._stopping and self.cycle is not None:
            self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        if self._pending_refusal is None:
            super().on_body(body)

    def on_message_complete(self) -> None:
        response, self._pending_refusal = self._pending_refusal, None
        if response is None:
            super().on_message_complete()
            return
        self._header_bytes = None
        self._stop_timer()
        if self._stopping or self.flow.write_paused:  # the latter of a client that does not read its responses
            self.transport.write(response.replace(b"\r\n\r\n", b"\r\nconnection: close\r\n\r\n", 1))
            self.transport.close()
        else:
            self.transport.write(response)
        self.on_response_complete()

    def _can_refuse(self) -> bool:
        """Whether this request could be refused by a response that never changes. Others go to the application, which
        refuses them itself; so does what follows in the same data, or one read could refuse thousands."""
        return (
            "overload_response" in self.app_state
            and self._header_bytes is not None
            and self._is_idle()
            and not (self._stopping or self.expect_100_continue or self.parser.should_upgrade())
            and self.parser.should_keep_alive()
            and self.parser.get_http_version() == "1.1"
        )

    def _is_idle(self) -> bool:
        """Whether the application answers no request of this connection."""
        return self.cycle is None or self.cycle.response_complete

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
        self._close_with_error(b"400 Bad Request", "Malformed HTTP request")

    def _start_timer(self) -> None:
        self._header_timer: asyncio.TimerHandle | None = self.loop.call_later(
            HEADER_TIMEOUT_S, self._close_with_error, b"408 Request Timeout", "Request headers not received in time"
        )

    def _stop_timer(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    def _close_with_error(self, status: bytes, detail: str) -> None:
        self._stop_timer()
        if self.transport.is_closing():
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
