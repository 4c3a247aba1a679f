"""Whether this process is about to exit. The main process says so by signals (supervisor.py)."""

import os
import select
import signal
import threading
from contextlib import closing, suppress
from pathlib import Path
from typing import Any


class Lifecycle:
    def __init__(self) -> None:
        #: Responses close their connection, so that none is idle, and about to be used again, when this process exits.
        self.closes_connections = False
        #: The whole service stops: /readyz answers 503, so that load balancers send requests elsewhere.
        self.stopping = False


process = Lifecycle()

#: The service stops; another process has replaced this one, and shares its listening socket.
STOP_SIGNAL, REPLACED_SIGNAL = signal.SIGUSR1, signal.SIGUSR2


def watch(listener_fd: int) -> None:
    """Start the thread that receives the main process's signals. `listener_fd`: what this process listens on.

    They are blocked in all threads, so that only this one receives them, by sigwait. A handler might run too late:
    Python runs it in the main thread, which does not wake up if the system delivers the signal to another thread.
    SIGINT (Ctrl-C) and SIGHUP (a closed terminal), which the system also sends to workers, stay blocked: only the main
    process stops workers.
    """
    # Until the HTTP server has installed its handler, there are no requests to finish.
    signal.signal(signal.SIGTERM, lambda *args: os._exit(0))
    threading.Thread(target=_watch, args=(listener_fd,), name="lifecycle", daemon=True).start()


def _watch(listener_fd: int) -> None:
    while (received := signal.sigwait({signal.SIGTERM, STOP_SIGNAL, REPLACED_SIGNAL})) != signal.SIGTERM:
        process.closes_connections = True
        if received == STOP_SIGNAL:
            process.stopping = True
        else:
            stop_accepting(listener_fd)
    stop_server: Any = signal.getsignal(signal.SIGTERM)
    stop_server(signal.SIGTERM, None)  # once only: a second time would hang it


def stop_accepting(fd: int) -> None:
    """Accept no more connections in this process, only in the one that shares the listening socket.

    Removes the socket from the event loop of the HTTP server, which has no function for this: when it stops, it closes
    the connections that it has accepted and from which it has not read yet. Linux only; elsewhere this does nothing.
    """
    with suppress(OSError):
        for opened in Path("/proc/self/fd").iterdir():
            with suppress(OSError):  # a descriptor that was just closed, or an event loop without this socket
                if str(opened.readlink()) == "anon_inode:[eventpoll]":
                    with closing(select.epoll.fromfd(os.dup(int(opened.name)))) as event_loop:
                        event_loop.unregister(fd)
