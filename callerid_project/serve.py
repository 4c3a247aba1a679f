"""The server, granian's WSGI workers: `python -m callerid_project.serve`, from the folder that holds manage.py.

With `check` it only says whether the port is free; nothing need be installed for that, so the top imports the standard
library alone. With `announce` it says where it answers once it does.
"""

import errno
import gc
import os
import signal
import socket
import sys
from collections.abc import Callable
from typing import Any


def address() -> tuple[str, int]:
    """HOST and PORT. Exits with one sentence when PORT is not a port."""
    return os.environ.get("HOST") or "127.0.0.1", _whole_number("PORT", 8000, most=65535)


def require_free(host: str, port: int) -> str:
    """The IP address to listen on. Exits with one sentence when that is impossible.

    Workers share the port by SO_REUSEPORT, so a second server would start without a word and take half of the
    requests: a socket without that option is tried first.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError:
        sys.exit(f"HOST={host} is not an address of this machine, for example HOST=127.0.0.1.")
    family, kind, protocol, _, target = min(found, key=lambda entry: entry[0] != socket.AF_INET)
    try:
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(target)
            probe.listen(1)
    except PermissionError:
        sys.exit(f"Port {port} needs privileges that this user has not: choose one from 1024 on, as in PORT=8001.")
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            sys.exit(f"Port {port} is in use: end what listens there, or choose another, as in PORT={port + 1} ./run")
        sys.exit(f"Cannot listen on {host} port {port}: {error.strerror}.")
    return str(target[0])


def _load(target: str) -> Callable[..., Any]:
    """Runs first in each worker.

    Ctrl-C reaches every process of the terminal's group, but a worker takes its orders from the main process alone:
    a second signal while it stops would hang it. Until granian installs its handlers, it may be ended at once.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    from django.core.exceptions import ImproperlyConfigured

    try:
        from callerid_project.wsgi import application
    except ImproperlyConfigured as error:
        sys.exit(f"Not started: {error}")
    gc.collect()
    gc.freeze()  # what was imported stays: searching all of it for garbage takes a search's time many times over
    return application


def main() -> None:
    host, port = address()
    ip = require_free(host, port)
    if sys.argv[1:] == ["check"]:
        return
    from granian.constants import HTTPModes, Interfaces
    from granian.http import HTTP1Settings
    from granian.log import LogLevels

    from callerid_project import announce
    from callerid_project.admission import SPARE_THREADS
    from callerid_project.supervisor import KILL_AFTER_S, Server

    server = Server(
        "callerid_project.wsgi:application",
        address=ip,
        port=port,
        interface=Interfaces.WSGI,
        http=HTTPModes.http1,
        websockets=False,
        workers=_whole_number("WORKERS", 1, most=1000),
        # One for each request that runs, is streamed, or waits for its turn, and some that answer at once.
        blocking_threads=2 * _whole_number("THREADS", 4, most=1000)
        + _whole_number("MAX_QUEUED_REQUESTS", 64, most=1000)
        + SPARE_THREADS,
        # Connections of a worker, those that are kept alive included: a probe beyond them is not accepted.
        backpressure=1024,
        workers_kill_timeout=KILL_AFTER_S,
        http1_settings=HTTP1Settings(max_buffer_size=64 * 1024),
        log_level=LogLevels.warning,
    )
    if sys.argv[1:] == ["announce"]:
        server.on_startup(lambda: announce.in_background(host, port))
    server.serve(target_loader=_load)


def _whole_number(name: str, default: int, *, most: int) -> int:
    """As in settings.py, which is not there yet. Exits with one sentence."""
    value = os.environ.get(name) or str(default)
    if not (value.isascii() and value.isdigit() and len(value) <= len(str(most)) and 1 <= int(value) <= most):
        sys.exit(f"{name} must be a whole number from 1 to {most}, for example {name}={default}.")
    return int(value)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(0)
