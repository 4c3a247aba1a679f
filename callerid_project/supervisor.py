"""The main process: starts the workers, replaces those that die, and stops or replaces all of them (SIGTERM, SIGHUP).

granian's own main process ends the whole service if a worker dies within seconds of its restart, and stops old workers
before new ones are known to work. docs/processes.md describes the order of a stop and of a reload.
"""

import multiprocessing
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection, wait
from typing import Any

from granian._granian import ListenerSpec
from granian.log import logger
from granian.server import MPServer

from callerid_project import lifecycle

#: A worker that dies after it was up for so long is restarted at once. One that dies earlier is restarted after 1 s,
#: which doubles with each early death in a row, up to MAX_PAUSE_S, or to MAX_PAUSE_WHEN_DOWN_S if no worker is up.
#: A reload replaces a worker when its successor was up for so long.
STABLE_S = 1.0
MAX_PAUSE_S = 30
MAX_PAUSE_WHEN_DOWN_S = 1
#: A reload fails if a new worker is not up after so long.
START_TIMEOUT_S = 60

Load = Callable[[], Callable[..., Any]]


# granian warns of so many threads, but most of them only wait (admission.py).
logger.addFilter(lambda record: "Python threads" not in record.getMessage())


@dataclass(eq=False)
class Worker:
    process: Any  # granian's, which has multiprocessing's as `inner`
    listener: socket.socket
    started_at: float = field(default_factory=time.monotonic)
    up_since: float | None = None
    #: Its last responses close their connections from then on.
    closing_since: float | None = None
    #: Since then it accepts no connections; when its requests are finished, it exits.
    terminated_at: float | None = None

    @property
    def idx(self) -> int:
        return int(self.process.idx)

    @property
    def name(self) -> str:
        return f"worker {self.idx + 1}"

    def close_connections(self, why: signal.Signals) -> None:
        """Let its responses close their connections. If it is not up, it has none: kill it."""
        self.closing_since = time.monotonic()
        if self.up_since is None:
            self.process.kill()
        elif self.process.is_alive():  # and only this process reaps it, so the id is its own
            os.kill(self.process.inner.pid, why)

    def terminate(self) -> None:
        self.terminated_at = time.monotonic()
        self.process.terminate()


class Server(MPServer):
    """granian's multi-process server with a serve loop of its own.

    `drain_s`: how long workers still accept connections after SIGTERM, and after they were replaced.
    `stop_timeout_s`: how long their requests may then take; a worker that has not exited by then is killed.
    """

    def __init__(self, *args: Any, drain_s: float, stop_timeout_s: float, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._drain_s, self._stop_timeout_s = drain_s, stop_timeout_s
        # Workers and signal handlers wake this process through it; its end is closed when this process dies.
        self._inbox, self._outbox = multiprocessing.Pipe()
        self._workers: dict[int, Worker] = {}  # by index; all of them run
        self._ever_up = False
        self._early_deaths = [0] * self.workers
        self._restart_at: dict[int, float] = {}  # by index, of the workers that are dead
        # Of a reload: whether one is in progress, the indexes whose workers it has yet to replace, the new worker that
        # starts, and the replaced ones.
        self._reloading = False
        self._to_replace: list[int] = []
        self._successor: Worker | None = None
        self._ending: list[Worker] = []

    # Unlike granian's, these handlers take no lock: a second signal may interrupt the handler of the first.

    def signal_handler_interrupt(self, signum: int, frame: Any) -> None:
        if signum == signal.SIGINT or self.interrupt_signal:  # Ctrl-C, or the second signal
            self._drain_s = 0
        self.interrupt_signal = True
        self._outbox.send(None)

    def signal_handler_reload(self, *args: Any, **kwargs: Any) -> None:
        self.reload_signal = True
        self._outbox.send(None)

    def _init_shared_socket(self) -> None:
        self._ssp: Any = None
        self._shd: Any = None
        self._spec = ListenerSpec(self.bind_addr, self.bind_port, self.backlog)
        self._reserved = self._spec.build()  # bound, not listening: keeps the port while no worker listens

    def _drop_shared_socket(self) -> None:
        pass

    def _spawn_workers(self, spawn_target: Any, target_loader: Any) -> None:
        self._target, self._loader = spawn_target, target_loader
        for idx in range(self.workers):
            self._workers[idx] = self._start(idx)

    def _start(self, idx: int, replaced: Worker | None = None) -> Worker:
        """Start a worker. Raises OSError.

        Each worker listens on a socket of its own (SO_REUSEPORT), over which the kernel distributes connections evenly,
        and which it shares with the worker that it replaces, so that connections that wait to be accepted are not
        reset when that one closes it. This process keeps the socket open as long as one of its workers runs.
        """
        if replaced is None:
            holder = self._spec.build()
            listener = socket.socket(fileno=holder.get_fd())
        else:
            holder, listener = replaced.process.holder, replaced.listener
        self._shd, self._sso = holder, listener  # what granian gives the worker
        others = {worker.listener for worker in self._running()} - {listener}
        load = partial(_load, self._loader, idx, self._inbox, self._outbox, listener, list(others))
        process: Any = super()._spawn_worker(idx, self._target, load)
        process.holder = holder
        # Replaces granian's thread that waits for the worker to exit: this process forks, so it must have no other
        # threads.
        process._watch = lambda: None
        try:
            with _signals_blocked():
                process.start()
        except OSError:
            if replaced is None:
                listener.close()
            raise
        return Worker(process, listener)

    def _running(self) -> list[Worker]:
        successor = [self._successor] if self._successor else []
        return [*self._workers.values(), *successor, *self._ending]

    def _serve_loop(self, spawn_target: Any, target_loader: Any) -> None:
        while True:
            self._wait()
            if self.interrupt_signal:
                return
            if self.reload_signal:
                self._begin_reload()
            self._notice_exits()
            if not self._ever_up and all(self._early_deaths):
                logger.error("No worker could start; stopping")
                self.shutdown(exit_code=1)
            self._restart_dead()
            self._continue_reload()
            self._end_workers()

    def _wait(self) -> None:
        """Wait for a signal, for a worker that comes up or exits, or until something is due."""
        due = [*self._restart_at.values(), *map(self._due, self._ending)]
        if new := self._successor:
            due.append(new.started_at + START_TIMEOUT_S if new.up_since is None else new.up_since + STABLE_S)
        timeout = max(0.0, min(due) - time.monotonic()) if due else None
        wait([self._inbox, *(worker.process.inner.sentinel for worker in self._running())], timeout)
        self._read_inbox()

    def _read_inbox(self) -> None:
        while self._inbox.poll():
            pid = self._inbox.recv()
            for worker in self._running():
                if worker.process.inner.pid == pid:
                    worker.up_since = time.monotonic()
                    self._ever_up = True

    def _due(self, worker: Worker) -> float:
        """When the next step in ending this worker is due."""
        if worker.terminated_at is not None:
            return worker.terminated_at + self._stop_timeout_s
        drain_s = self._drain_s if self.interrupt_signal else max(self._drain_s, STABLE_S)
        return (worker.closing_since or 0.0) + drain_s

    def _notice_exits(self) -> None:
        for worker in self._running():
            if worker.process.is_alive():
                continue
            code = worker.process.inner.exitcode
            reason = f"exited with signal {-code}" if code < 0 else f"exited with status {code}"
            if worker is self._successor:
                self._reload_failed(f"{worker.name} {reason} at its start")
            elif worker in self._ending:
                self._ending.remove(worker)
            elif self._successor and self._successor.idx == worker.idx:
                self._workers[worker.idx], self._successor = self._successor, None
                logger.warning("%s %s; its replacement is starting", worker.name, reason)
            else:
                del self._workers[worker.idx]
                # SIGKILL: an operator or the out-of-memory killer, not a sign that workers cannot start.
                killed = code == -signal.SIGKILL and self._ever_up
                was_up_s = time.monotonic() - worker.up_since if worker.up_since else 0.0
                self._plan_restart(worker.idx, reason, early=was_up_s < STABLE_S and not killed)
            if all(other.listener is not worker.listener for other in self._running()):
                worker.listener.close()
        if self._restart_at and not self._any_up():
            soon = time.monotonic() + MAX_PAUSE_WHEN_DOWN_S
            self._restart_at = {idx: min(at, soon) for idx, at in self._restart_at.items()}

    def _any_up(self) -> bool:
        return any(worker.up_since for worker in self._workers.values())

    def _plan_restart(self, idx: int, reason: str, *, early: bool) -> None:
        self._early_deaths[idx] = self._early_deaths[idx] + 1 if early else 0
        pause_s = restart_pause_s(self._early_deaths[idx], MAX_PAUSE_S if self._any_up() else MAX_PAUSE_WHEN_DOWN_S)
        self._restart_at[idx] = time.monotonic() + pause_s
        logger.warning("worker %d %s; restarting %s", idx + 1, reason, f"in {pause_s} s" if pause_s else "now")

    def _restart_dead(self) -> None:
        for idx in [idx for idx, at in self._restart_at.items() if at <= time.monotonic()]:
            # If the worker that it replaced still runs, connections wait at their listener.
            replaced = next((worker for worker in self._ending if worker.idx == idx), None)
            try:
                self._workers[idx] = self._start(idx, replaced)
            except OSError as error:  # no memory, or the limit of processes is reached
                self._plan_restart(idx, f"could not be started ({error.strerror})", early=True)
            else:
                del self._restart_at[idx]

    def _begin_reload(self) -> None:
        self.reload_signal = False
        logger.warning("reload: replacing %d worker%s, one after another", self.workers, "s"[: self.workers > 1])
        self._reloading = True
        self._to_replace = list(range(self.workers))
        self._restart_at = dict.fromkeys(self._restart_at, 0.0)

    def _continue_reload(self) -> None:
        """Start the next new worker when the one before it has proved to work, and end what that one replaces."""
        now = time.monotonic()
        if new := self._successor:
            if new.up_since is None:
                if now - new.started_at >= START_TIMEOUT_S:
                    new.process.kill()
                    new.process.join()
                    self._reload_failed(f"{new.name} was not up after {START_TIMEOUT_S} s")
                return
            if now - new.up_since < STABLE_S:
                return
            old, self._workers[new.idx], self._successor = self._workers[new.idx], new, None
            old.close_connections(lifecycle.REPLACED_SIGNAL)
            self._ending.append(old)
        while self._to_replace and self._successor is None:
            idx = self._to_replace.pop(0)
            if idx in self._workers:  # a dead one is restarted anyway
                try:
                    self._successor = self._start(idx, self._workers[idx])
                except OSError as error:
                    self._reload_failed(f"worker {idx + 1} could not be started ({error.strerror})")
        if self._reloading and self._successor is None:
            self._reloading = False
            logger.warning("reload: finished")

    def _reload_failed(self, reason: str) -> None:
        self._reloading, self._successor = False, None
        self._to_replace.clear()
        logger.error("reload: failed, and the present workers go on: %s", reason)

    def _end_workers(self) -> None:
        now = time.monotonic()
        for worker in self._ending:
            if self._due(worker) > now:
                continue
            if worker.terminated_at is not None:
                logger.warning("%s had requests in progress after %s s; killing it", worker.name, self._stop_timeout_s)
                worker.process.kill()
                worker.process.join()
            else:
                worker.terminate()
                if self.interrupt_signal:
                    worker.listener.close()  # the worker closes its own

    def _stop_workers(self) -> None:
        self._read_inbox()
        self._ending = self._running()
        self._workers, self._successor = {}, None
        self._restart_at.clear()
        for worker in self._ending:
            if worker.terminated_at is None:
                worker.close_connections(lifecycle.STOP_SIGNAL)
        while self._ending:
            self._end_workers()
            self._notice_exits()
            if self._ending:
                self._wait()


def restart_pause_s(early_deaths: int, most: int) -> int:
    """Seconds, at most `most`, before the restart of a worker that died early so many times in a row."""
    return min(2 ** (early_deaths - 1), most) if early_deaths else 0


@contextmanager
def _signals_blocked() -> Iterator[None]:
    """A worker must not run the main process's handlers: see lifecycle.watch."""
    signals = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, lifecycle.STOP_SIGNAL, lifecycle.REPLACED_SIGNAL}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _load(
    load: Load, idx: int, inbox: Connection, outbox: Connection, listener: socket.socket, others: list[socket.socket]
) -> Callable[..., Any]:
    """The application; runs first in each worker. `idx` stays the same after a restart or a reload.

    `listener`: what this worker listens on; `others`: what the others do."""
    listener_fd = listener.detach()  # the HTTP server owns and closes it
    inbox.close()  # only the main process holds this end, so its death closes it
    for other in others:
        other.close()
    application = load()
    from django.conf import settings

    from accounts import credits
    from core import metrics

    if settings.PIN_WORKERS and settings.WORKERS > 1:
        _pin(idx)
    metrics.start()  # its thread runs on the same CPU
    credits.settler.start_thread()  # settles what ended processes have left
    lifecycle.watch(listener_fd)
    arguments = (outbox, settings.STOP_TIMEOUT_S)
    threading.Thread(target=_end_with_main_process, args=arguments, name="parent-watch", daemon=True).start()
    outbox.send(os.getpid())
    return application


def _pin(idx: int) -> None:
    """Restrict this worker's threads to one of its CPUs. Does nothing where the system does not support or allow it."""
    with suppress(AttributeError, OSError):
        cpus = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cpus[idx % len(cpus)]})


def _end_with_main_process(outbox: Connection, stop_timeout_s: float) -> None:
    """End this worker, after the requests in progress, if the main process was killed."""
    with suppress(EOFError, OSError):
        outbox.recv()  # nothing is ever sent to workers: this returns when the other end is closed
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(stop_timeout_s)
    os._exit(1)
