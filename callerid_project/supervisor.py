"""The main process: starts the workers, replaces those that die, and stops them.

granian's own main process ends the whole service when a worker dies within seconds of its restart.
"""

import multiprocessing
import os
import secrets
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection, wait
from typing import Any

from granian.log import logger
from granian.server import MPServer

#: A worker that does not end by itself is killed.
KILL_AFTER_S = 5
#: A worker that dies after it was up for so long is restarted at once. One that dies earlier is restarted after 1 s,
#: and each further time in a row after twice as long, up to the maximum: MAX_PAUSE_S while another worker is up.
STABLE_S = 1.0
MAX_PAUSE_S = 30
MAX_PAUSE_WHEN_DOWN_S = 1

Load = Callable[[], Callable[..., Any]]


# Most threads of a worker only wait (callerid_project/admission.py): granian's advice on their number is wrong here.
logger.addFilter(lambda record: "Python threads" not in record.getMessage())


class Server(MPServer):
    """granian's server, which also tells each worker its index, the same after a restart or a reload."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._first_cpu = secrets.randbelow(1000)
        # Workers and signal handlers wake this process through it; workers see it closed when this process has died.
        self._inbox, self._outbox = multiprocessing.Pipe()
        self._up_since: dict[int, float] = {}  # by process id
        self._ever_up = False
        self._early_deaths = [0] * self.workers
        self._restart_at: dict[int, float] = {}  # by index, of the workers that are dead

    # Neither handler takes a lock, as granian's do: a second signal may interrupt the first one's handler.

    def signal_handler_interrupt(self, *args: Any, **kwargs: Any) -> None:
        self.interrupt_signal = True
        self._outbox.send(None)

    def signal_handler_reload(self, *args: Any, **kwargs: Any) -> None:
        self.reload_signal = True
        self._outbox.send(None)

    def _spawn_worker(self, idx: int, target: Any, callback_loader: Load, *more: Any) -> Any:
        load = partial(_load, callback_loader, idx, self._first_cpu, self._inbox, self._outbox)
        worker: Any = super()._spawn_worker(idx, target, load, *more)
        # granian's threads that wait for each worker to exit: this process forks, so it should have no other threads.
        worker._watch = lambda: None
        return worker

    def _serve_loop(self, spawn_target: Any, target_loader: Any) -> None:
        while True:
            self._wait()
            if self.interrupt_signal:
                return
            if self.reload_signal:
                self._reload(spawn_target, target_loader)
                self._restart_at.clear()
            self._plan_restarts()
            if not self._ever_up and all(self._early_deaths):
                logger.error("No worker could start; the service ends")
                self.shutdown(exit_code=1)
            for idx in [idx for idx, at in self._restart_at.items() if at <= time.monotonic()]:
                self._restart(idx, spawn_target, target_loader)

    def _wait(self) -> None:
        """Wait for a signal, a worker that has come up or exited, or the next restart."""
        alive = [worker.inner.sentinel for idx, worker in enumerate(self.wrks) if idx not in self._restart_at]
        next_restart = min(self._restart_at.values(), default=None)
        wait([self._inbox, *alive], None if next_restart is None else max(0.0, next_restart - time.monotonic()))
        while self._inbox.poll():
            if pid := self._inbox.recv():
                self._up_since[pid] = time.monotonic()
                self._ever_up = True

    def _plan_restarts(self) -> None:
        now = time.monotonic()
        for idx, worker in enumerate(self.wrks):
            if idx in self._restart_at or worker.is_alive():
                continue
            up_since = self._up_since.pop(worker.inner.pid, now)
            code = worker.inner.exitcode
            reason = f"exited with signal {-code}" if code < 0 else f"exited with status {code}"
            # Killed while it started, by an operator or for lack of memory: that says nothing about the code.
            killed = code == -signal.SIGKILL and self._ever_up
            self._plan_restart(idx, reason, early=now - up_since < STABLE_S and not killed)
        if self._restart_at and not self._any_up():
            soon = time.monotonic() + MAX_PAUSE_WHEN_DOWN_S
            self._restart_at = {idx: min(at, soon) for idx, at in self._restart_at.items()}

    def _any_up(self) -> bool:
        return any(
            worker.inner.pid in self._up_since for idx, worker in enumerate(self.wrks) if idx not in self._restart_at
        )

    def _plan_restart(self, idx: int, reason: str, *, early: bool) -> None:
        self._early_deaths[idx] = self._early_deaths[idx] + 1 if early else 0
        pause_s = restart_pause_s(self._early_deaths[idx], MAX_PAUSE_S if self._any_up() else MAX_PAUSE_WHEN_DOWN_S)
        self._restart_at[idx] = time.monotonic() + pause_s
        logger.warning("worker %d %s; restarting %s", idx + 1, reason, f"in {pause_s} s" if pause_s else "now")

    def _restart(self, idx: int, spawn_target: Any, target_loader: Any) -> None:
        worker = self._spawn_worker(idx, spawn_target, target_loader)
        try:
            worker.start()
        except OSError as error:  # no memory for another process, or too many of them
            self._plan_restart(idx, f"could not be started ({error.strerror})", early=True)
        else:
            self.wrks[idx] = worker
            del self._restart_at[idx]


def restart_pause_s(early_deaths: int, most: int) -> int:
    """Seconds to wait, at most `most`, before a worker is restarted that has died early so many times in a row."""
    return min(2 ** (early_deaths - 1), most) if early_deaths else 0


def _load(load: Load, idx: int, first_cpu: int, inbox: Connection, outbox: Connection) -> Callable[..., Any]:
    """The application; runs first in each worker."""
    inbox.close()  # the main process alone holds this end, so that its death closes it
    application = load()
    from django.conf import settings

    from callerid_project.affinity import keep_to_one

    if settings.PIN_WORKERS and settings.WORKERS > 1:
        keep_to_one(idx, first_cpu)  # before any thread is started: threads inherit it
    threading.Thread(target=_end_with_main_process, args=(outbox,), name="parent-watch", daemon=True).start()
    outbox.send(os.getpid())
    return application


def _end_with_main_process(outbox: Connection) -> None:
    """End this worker when the main process was killed: requests in progress are still answered."""
    with suppress(EOFError, OSError):
        outbox.recv()  # nothing is ever sent to workers: this returns when the other end is closed
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(KILL_AFTER_S)
    os._exit(1)
