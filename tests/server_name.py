"""A TCP forwarder that stands for a DNS name: new connections go to the server that it resolves to at that moment, and
those that exist stay where they are."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from socketserver import BaseRequestHandler, ThreadingTCPServer


class ServerName(ThreadingTCPServer):
    """`resolves_to`: the port of the server."""

    daemon_threads = True

    def __init__(self, resolves_to: int) -> None:
        super().__init__(("127.0.0.1", 0), _Connection)
        self.resolves_to = resolves_to

    @property
    def port(self) -> int:
        return int(self.server_address[1])


class _Connection(BaseRequestHandler):
    def handle(self) -> None:
        assert isinstance(self.server, ServerName)
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.server.resolves_to)) as server:
            replies = threading.Thread(target=_copy, args=(server, self.request), daemon=True)
            replies.start()
            _copy(self.request, server)
            replies.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65_536):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_RDWR)


@contextmanager
def server_name(resolves_to: int) -> Iterator[ServerName]:
    with ServerName(resolves_to) as name:
        threading.Thread(target=name.serve_forever, args=(0.01,)).start()
        try:
            yield name
        finally:
            name.shutdown()
