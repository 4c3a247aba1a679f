"""The HTTP server, uvicorn with one process: `python -m callerid_project.serve`, in the folder of manage.py.

With `check` it only reports whether the port is free. That runs before anything is installed, so the top of this module
imports only modules without dependencies. With `announce` it prints where the service can be reached once it answers.
"""

import errno
import os
import resource
import signal
import socket
import sys
import threading
import time
from contextlib import suppress
from typing import Any

from core.amounts import whole_number

#: libuv, which uvloop runs on, accepts one connection of a descriptor in each turn of the loop. With several
#: descriptors of the listening socket it accepts as many, so that new ones do not wait for seconds in a busy process.
ACCEPTED_EACH_TURN = 8
#: Linux ends a connection whose peer has acknowledged nothing for so long: it has gone, or does not read.
UNREAD_TIMEOUT_S = 15
#: Bytes of a connection that Linux takes from the process before it has sent them. Without this limit it takes up to
#: 4 MB (`tcp_wmem`), so that many connections that do not read their responses use much memory.
MAX_UNSENT_BYTES = 256 * 1024


def bind(host: str, port: int) -> socket.socket:
    """A socket of this address that does not listen yet: connections are refused until the service has started. `::`:
    of all addresses, IPv4 and IPv6. Exits with one sentence if that is impossible."""
    host = host.strip("[]")
    if host == "::" and not socket.has_dualstack_ipv6():
        host = "0.0.0.0"  # noqa: S104  (IPv6 is switched off here)
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError:
        sys.exit(f"HOST={host} is not an address of this machine, for example HOST=127.0.0.1, or HOST=:: for all.")
    family, kind, protocol, _, address = min(found, key=lambda entry: entry[0] != socket.AF_INET)
    bound = socket.socket(family, kind, protocol)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, host != "::")
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # these are inherited by every connection
            bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNREAD_TIMEOUT_S * 1000)
            bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, MAX_UNSENT_BYTES)
        bound.bind(address)
    except PermissionError:
        sys.exit(f"Port {port} requires privileges that this user lacks: choose a port above 1023, such as PORT=8001.")
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            sys.exit(f"Port {port} is in use: stop the other program, or choose another port, such as PORT={port + 1}.")
        sys.exit(f"Cannot listen on {host} port {port}: {error.strerror}.")
    return bound


def raise_descriptor_limit() -> None:
    """Allow this process as many files and connections as its hard limit does. The soft one is often 1,024, for
    programs that use select(), which nothing here does."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    for limit in (hard, 10_240):  # macOS refuses more than the latter, although its hard limit is infinite
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
            return


def main() -> None:
    port = _whole_number("PORT", 8000, most=65535)
    bound = bind(os.environ.get("HOST") or "127.0.0.1", port)
    if sys.argv[1:] == ["check"]:
        return
    raise_descriptor_limit()
    import uvicorn
    from django.core.exceptions import ImproperlyConfigured

    from callerid_project.http_protocol import LimitedProtocol

    config = uvicorn.Config(
        "callerid_project.asgi:application",
        loop="uvloop",
        http=LimitedProtocol,
        ws="none",
        lifespan="on",
        log_config=None,  # Django's: callerid_project.logging
        access_log=False,  # our own line has no query and no address that a client made up
        proxy_headers=False,  # TRUSTED_PROXIES counts
        server_header=False,
        backlog=2048,
        timeout_keep_alive=_whole_number("KEEP_ALIVE_S", 620, most=86_400),
        timeout_graceful_shutdown=_whole_number("STOP_TIMEOUT_S", 5, most=3600),
    )
    server = uvicorn.Server(config)
    if sys.argv[1:] == ["announce"]:
        threading.Thread(target=_announce, args=(server,), daemon=True).start()
    # When it has stopped in order, uvicorn sends itself the signal again. Nothing waits for threads then, as sys.exit
    # would: that of a page may wait for a database that does not answer.
    for stopping in (signal.SIGINT, signal.SIGTERM):
        signal.signal(stopping, lambda *_: os._exit(0))
    try:
        server.run([bound, *(bound.dup() for _ in range(ACCEPTED_EACH_TURN - 1))])
    except ImproperlyConfigured as error:
        sys.exit(f"Configuration error: {error}")


def _announce(server: Any) -> None:
    while not server.started:
        time.sleep(0.05)
    from callerid_project.announce import message

    sys.stdout.write(f"{message()}\n")
    sys.stdout.flush()


def _whole_number(name: str, default: int, *, most: int) -> int:
    """Reads what settings.py reads too, in the process that does not load it. Exits with one sentence."""
    try:
        value = whole_number(os.environ.get(name) or str(default))
    except ValueError:
        value = 0
    if not 1 <= value <= most:
        sys.exit(f"{name} must be a whole number from 1 to {most}, for example {name}={default}.")
    return value


if __name__ == "__main__":
    main()
