"""A time limit for what commands compute or wait for."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def time_limit(limit_s: float, error: type[BaseException]) -> Iterator[None]:
    """Raises `error` in the block after `limit_s`. For the main thread. For a KeyboardInterrupt, psycopg cancels its
    statement, and waits until the server has done so; for others it does not, so close the connection."""

    def expire(*_: object) -> None:
        raise error

    before = signal.signal(signal.SIGALRM, expire)
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
