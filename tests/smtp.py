"""A mail server on loopback, with the few verbs that a sender needs, and the ways in which real ones fail."""

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

    `refuse`: the answer to a verb, such as `RCPT` → `550 no`. `hang`: nothing is said until `released`. `together`: no
    message is taken before so many have come.
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
                self._take(mailbox)
            else:
                self._say({"QUIT": "221 bye"}.get(verb, "250 ok"))
            if verb == "QUIT":
                return

    def _take(self, mailbox: Mailbox) -> None:
        lines = []
        while (line := self.rfile.readline()) not in (b".\r\n", b""):
            lines.append(line.removeprefix(b"."))
        if mailbox.together is not None:
            mailbox.together.wait(20)
        mailbox.messages.append(message_from_bytes(b"".join(lines), policy=policy.default))
        self._say("250 taken")

    def _say(self, line: str) -> None:
        self.wfile.write(f"{line}\r\n".encode())


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    mailbox: Mailbox

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no error of the server's."""


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
