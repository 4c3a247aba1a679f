"""The HTTP server, granian with WSGI workers: `python -m callerid_project.serve`, in the folder of manage.py.

With `check` it only reports whether the port is free. That runs before anything is installed, so the top of this module
imports only the standard library. With `announce` it prints where the service can be reached once it answers.
"""

import atexit
import errno
import gc
import multiprocessing
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from multiprocessing.synchronize import Lock
from typing import Any


def require_free(host: str, port: int) -> str:
    """The IP address to listen on. Exits with one sentence if that is impossible.

    Workers share the port by SO_REUSEPORT, so a second server would start silently and receive half of the requests.
    That is why a socket without that option is tried first.
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
        sys.exit(f"Port {port} requires privileges that this user lacks: choose a port above 1023, such as PORT=8001.")
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            sys.exit(f"Port {port} is in use: stop the other program, or choose another port: PORT={port + 1} ./run")
        sys.exit(f"Cannot listen on {host} port {port}: {error.strerror}.")
    return str(target[0])


def _load(announced: Lock | None, target: str) -> Callable[..., Any]:
    """The application. `announced`: see announce.announce_once."""
    from django.core.exceptions import ImproperlyConfigured

    try:
        from callerid_project.wsgi import application
    except ImproperlyConfigured as error:
        sys.exit(f"Configuration error: {error}")
    from callerid_project.health import log, redis_memory

    if (memory := redis_memory()) and not memory.healthy:
        log.warning("Redis: %s", memory.detail)
    if announced is not None:
        from callerid_project.announce import announce_once

        announce_once(announced)
    gc.collect()
    gc.freeze()  # imported objects stay: collecting them again takes many times as long as a search
    return application


def main() -> None:
    port = _whole_number("PORT", 8000, most=65535)
    ip = require_free(os.environ.get("HOST") or "127.0.0.1", port)
    if sys.argv[1:] == ["check"]:
        return
    from granian.constants import HTTPModes, Interfaces
    from granian.http import HTTP1Settings
    from granian.log import LogLevels

    from callerid_project import logging
    from callerid_project.admission import SPARE_THREADS
    from callerid_project.supervisor import Server

    server = Server(
        "callerid_project.wsgi:application",
        address=ip,
        port=port,
        interface=Interfaces.WSGI,
        http=HTTPModes.http1,
        websockets=False,
        workers=_whole_number("WORKERS", 1, most=1000),
        # One for each request that runs, is streamed, or is queued, and spare ones.
        blocking_threads=2 * _whole_number("THREADS", 4, most=1000)
        + _whole_number("MAX_QUEUED_REQUESTS", 64, most=1000)
        + SPARE_THREADS,
        # Connections of a worker, including idle keep-alive ones. Beyond it not even health checks are accepted.
        backpressure=1024,
        http1_settings=HTTP1Settings(max_buffer_size=64 * 1024),
        log_level=LogLevels.warning,
        log_dictconfig=logging.server_config(),
        drain_s=_whole_number("DRAIN_S", 3, least=0, most=3600),
        stop_timeout_s=_whole_number("STOP_TIMEOUT_S", 5, most=3600),
    )
    # Of this start alone, for the workers (core.metrics).
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = metrics_directory = tempfile.mkdtemp(prefix="callerid-metrics-")
    atexit.register(shutil.rmtree, metrics_directory, ignore_errors=True)
    announced = multiprocessing.Lock() if sys.argv[1:] == ["announce"] else None
    server.serve(target_loader=partial(_load, announced))


def _whole_number(name: str, default: int, *, least: int = 1, most: int) -> int:
    """Reads what settings.py reads too, in the process that does not load it. Exits with one sentence."""
    value = os.environ.get(name) or str(default)
    if not (value.isascii() and value.isdigit() and len(value) <= len(str(most)) and least <= int(value) <= most):
        sys.exit(f"{name} must be a whole number from {least} to {most}, for example {name}={default}.")
    return int(value)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(0)
