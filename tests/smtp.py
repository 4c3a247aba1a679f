"""A mail server on loopback with the commands that a sender needs, and the failures of real servers."""

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from typing import Any


@dataclass
class Mailbox:
    """What arrived at `port`, and how the server behaves.

    `refuse`: the reply to a command, such as `RCPT` → `550 no`. `hang`: no reply until `released`. `together`: no
    message is accepted before so many have arrived.
    """

    port: int = 0
    messages: list[EmailMessage] = field(default_factory=list)
    refuse: dict[str, str] = field(default_factory=dict)
    hang: bool = False
    together: threading.Barrier | None = None
    released: threading.Event = field(default_factory=threading.Event)

    def recipients(self) -> list[str]:
        return [str(message["To"]) for message in self.messages]


class _Session(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        mailbox: Mailbox = self.server.mailbox  # type: ignore[attr-defined]
        if mailbox.hang:
            mailbox.released.wait(30)
            return
        self._say(mailbox.refuse.get("CONNECT", "220 ready"))
        while line := self.rfile.readline():
            verb = line.split()[0].decode().upper() if line.split() else ""
            if verb in mailbox.refuse:
                self._say(mailbox.refuse[verb])
            elif verb == "DATA":
                self._say("354 go on")
                self._receive(mailbox)
            else:
                self._say({"QUIT": "221 bye"}.get(verb, "250 ok"))
            if verb == "QUIT":
                return

    def _receive(self, mailbox: Mailbox) -> None:
        lines = []
        while (line := self.rfile.readline()) not in (b".\r\n", b""):
            lines.append(line.removeprefix(b"."))
        if mailbox.together is not None:
            mailbox.together.wait(20)
        mailbox.messages.append(message_from_bytes(b"".join(lines), policy=policy.default))
        self._say("250 accepted")

    def _say(self, line: str) -> None:
        self.wfile.write(f"{line}\r\n".encode())


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    mailbox: Mailbox

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that disconnects is not an error."""


@contextmanager
def mail_server() -> Iterator[Mailbox]:
    with _Server(("127.0.0.1", 0), _Session) as server:
        mailbox = server.mailbox = Mailbox(port=server.server_address[1])
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield mailbox
        finally:
            mailbox.released.set()
            server.shutdown()
            thread.join()
