"""A server on loopback that publishes files as the FTC, the FCC and PhoneBlock do, and fails as they may."""

from dataclasses import dataclass, field
from typing import Self

from tests.upstream import Behaviour, Conversation, Upstream

CSV = "Content-Type: text/csv\r\n"


@dataclass
class Publisher:
    """`files`: path with query → content. A file with an entry in `etags` can be asked for conditionally. `faults`: how
    the next requests are answered instead."""

    files: dict[str, bytes] = field(default_factory=dict)
    etags: dict[str, str] = field(default_factory=dict)
    faults: list[Behaviour] = field(default_factory=list)

    def start(self) -> Self:
        self.server = Upstream(self._behave).start()
        self.url = self.server.url
        return self

    @property
    def requests(self) -> list[str]:
        """The path of each request so far."""
        return [head.split(b" ", 2)[1].decode() for head in self.server.heads]

    def sent(self, index: int, name: str) -> str | None:
        """A header of a request."""
        return headers(self.server.heads[index]).get(name.lower())

    def _behave(self, conversation: Conversation) -> bool:
        if self.faults:
            return self.faults.pop(0)(conversation)
        path = conversation.head.split(b" ", 2)[1].decode()
        if path not in self.files:
            conversation.reply(404, b"<html>Not found</html>", "Content-Type: text/html\r\n")
            return True
        body, etag, given = self.files[path], self.etags.get(path), headers(conversation.head)
        tag = f"ETag: {etag}\r\n" if etag else ""
        if etag and given.get("if-none-match") == etag:
            conversation.send(f"HTTP/1.1 304 X\r\n{tag}\r\n".encode())
        else:
            conversation.reply(200, body, CSV + tag)
        return True


def headers(head: bytes) -> dict[str, str]:
    lines = head.decode("latin-1").split("\r\n")[1:]
    return {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}


def truncated(body: bytes, at: int, more: str = "") -> Behaviour:
    """Promise the whole body, send it up to `at`, and close the connection."""

    def behave(conversation: Conversation) -> bool:
        conversation.send(f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n{CSV}{more}\r\n".encode() + body[:at])
        return False

    return behave


def chunked(body: bytes, more: str = "", *, end: bytes = b"0\r\n\r\n") -> Behaviour:
    """Send the body in one chunk, without its length. `end` empty: the connection closes before the last chunk."""

    def behave(conversation: Conversation) -> bool:
        head = f"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n{CSV}{more}\r\n".encode()
        conversation.send(head + b"%x\r\n%s\r\n" % (len(body), body) + end)
        return bool(end)

    return behave


def redirect(url: str) -> Behaviour:
    """Redirect with a body that never ends."""

    def behave(conversation: Conversation) -> bool:
        conversation.send(f"HTTP/1.1 302 X\r\nLocation: {url}\r\nContent-Length: 10000000000\r\n\r\n".encode())
        while not conversation.ended.is_set():
            conversation.send(b" " * 65536)
        return False

    return behave
