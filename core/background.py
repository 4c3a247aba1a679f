"""Base class of what collects rows in memory and writes them to the database in a thread of its own.

The thread writes a last time when the process ends in an orderly way; a crash loses what came since the last write.
"""

import atexit
import threading
import time
from abc import ABC, abstractmethod
from contextlib import suppress

from django.db import connection

#: How long the end of a process waits for the last writes of all writers: less than the default of STOP_TIMEOUT_S.
EXIT_TIMEOUT_S = 4.0


class BackgroundWriter(ABC):
    """Calls `flush` every `flush_interval_s` from the first `start_thread` on. None: no thread, and nothing is written
    until `flush` is called."""

    def __init__(self, flush_interval_s: float | None) -> None:
        self._flush_interval_s = flush_interval_s
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        self._closing = threading.Event()

    @abstractmethod
    def flush(self) -> None:
        """Write what is pending. Never raises."""

    def start_thread(self) -> None:
        """Start the thread unless it runs. May raise, as threading does; the next call tries again."""
        if self._thread is not None or self._flush_interval_s is None:
            return
        with self._starting:
            if self._thread is None:
                thread = threading.Thread(target=self._flush_regularly, name=type(self).__name__, daemon=True)
                thread.start()
                self._thread = thread
                if not _started:
                    atexit.register(close_all)
                _started.append(self)

    def close(self, timeout_s: float = EXIT_TIMEOUT_S) -> bool:
        """Flush a last time and end the thread. False when it has not ended after `timeout_s`."""
        if self._thread is None:
            return True
        self._closing.set()
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _flush_regularly(self) -> None:
        closing = False
        while not closing:
            closing = self._closing.wait(self._flush_interval_s)
            self.flush()
            with suppress(Exception):  # closing a lost connection may fail too
                connection.close()


#: The writers of this process whose thread was started.
_started: list[BackgroundWriter] = []


def close_all() -> None:
    """At the same time: a database that does not answer delays each of them."""
    deadline = time.monotonic() + EXIT_TIMEOUT_S
    for writer in _started:
        writer.close(timeout_s=0)
    for writer in _started:
        writer.close(timeout_s=max(0.0, deadline - time.monotonic()))
