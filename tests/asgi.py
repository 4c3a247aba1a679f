"""The ASGI application in this process, without a server: for what runs on the event loop (callerid_project.asgi)."""

import asyncio
from typing import Any

from callerid_project import asgi
from core import loop
from tests.raw_http import Answer


def call(path: str, body: bytes | None = None, *, method: str = "", complete: bool = True, **headers: str) -> Answer:
    """The response to a request: POST if there is a body, else GET. `headers`: with underscores instead of hyphens.
    `complete`: else the client disconnects behind the body."""
    lines = {"Host": "localhost"}
    if body is not None:
        lines |= {"Content-Type": "application/json", "Content-Length": str(len(body))}
    lines |= {name.replace("_", "-"): value for name, value in headers.items()}
    if "Transfer-Encoding" in lines:
        del lines["Content-Length"]
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": method or ("GET" if body is None else "POST"),
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(name.lower().encode(), value.encode("latin-1")) for name, value in lines.items()],
        "client": ("127.0.0.1", 50_000),
        "server": ("127.0.0.1", 8_000),
    }
    received: list[dict[str, Any]] = [{"type": "http.request", "body": body or b"", "more_body": not complete}]
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        if not received and complete:
            await asyncio.Event().wait()  # the client stays
        return received.pop() if received else {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    loop.run(asgi.application(scope, receive, send))
    start, *rest = sent
    answered = {name.decode(): value.decode() for name, value in start["headers"]}
    return Answer(start["status"], answered, b"".join(part.get("body", b"") for part in rest))
