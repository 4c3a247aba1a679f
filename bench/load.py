"""The load: searches over kept connections, in a process of its own, at some 30 µs each.

`python -m bench.load` reads a Plan as JSON on stdin; says `begin` and `end` around what is counted, and then, as JSON
in one line, an Outcome, or `{"failed": "<sentence>"}`. An answer other than 200 is a failure, but where `errors_too`.

Closed loop: each connection searches again as soon as it is answered. Open loop (`rate`): searches are due evenly
spaced, whatever the answers do, and a search's time counts from when it was due, so that a stall is seen in full.
"""

import json
import re
import select
import socket
import sys
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from bench.rows import number

#: Without any answer for so long, the run has failed.
PATIENCE_S = 10.0
#: Connections are opened one after the other, at most so far apart, while the first ones search already: of all at once
#: one process of a server may take every one.
APART_S = 0.01
_LENGTH = re.compile(rb"content-length: *([0-9]+)", re.IGNORECASE)
_OK, _ERROR = b"HTTP/1.1 200", b"HTTP/1.1 5"


class LoadFailed(Exception):
    """An answer that is none, or not 200; the message says which."""


@dataclass(frozen=True)
class Plan:
    """`api_keys` and `distinct` numbers, from the `first` on, are gone through in circles. `rate`: searches a second,
    or None for the closed loop. `whole`: what stands in an answer that has all it should have. `errors_too`: answers
    of 500 and more are counted, not a failure."""

    port: int
    api_keys: list[str]
    connections: int
    seconds: float
    warmup_s: float
    rate: float | None = None
    first: int = 0
    distinct: int = 10_000
    whole: str = '"source_a_available":true'
    errors_too: bool = False


@dataclass(frozen=True)
class Outcome:
    """`answered`, `incomplete`, `errors`: all answers of 200, those among them that are not whole, and those of 500 and
    more, before and after what is counted too. The rest is of answers of 200 while it was counted. `own_us`: the load's
    own CPU time for each."""

    answered: int
    incomplete: int
    errors: int
    rate: float
    p50_ms: float
    p99_ms: float
    own_us: float


def requests(plan: Plan) -> Iterator[bytes]:
    heads = []
    for api_key in plan.api_keys:
        body = json.dumps({"api_key": api_key, "query": ""}).removesuffix('"}')
        length = len(body) + len(f'{number(0)}"}}')  # all numbers have as many digits
        heads.append(
            f"POST /callerid/search HTTP/1.1\r\nHost: 127.0.0.1:{plan.port}\r\nUser-Agent: bench\r\nAccept: */*\r\n"
            f"Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}".encode()
        )
    count = 0
    while True:
        yield b'%b%d"}' % (heads[count % len(heads)], number(plan.first + count % plan.distinct))
        count += 1


class Connection:
    """`due`: since when its search's time counts; None while it has none."""

    def __init__(self, port: int) -> None:
        self.due: float | None = None
        self._received = b""
        self._sock = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
        self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sock.setblocking(False)
        self.fileno = self._sock.fileno
        self.close = self._sock.close

    def ask(self, request: bytes, due: float) -> None:
        self.due = due
        if self._sock.send(request) != len(request):
            raise LoadFailed("took only a part of a request")

    def answer(self) -> tuple[bytes, bytes] | None:
        """Head and body, when what has come now completes them. Raises LoadFailed, and ConnectionError when it is
        closed."""
        chunk = self._sock.recv(65536)
        if not chunk:
            raise ConnectionError
        self._received = received = self._received + chunk
        head = received.find(b"\r\n\r\n")
        if head < 0:
            return None
        length = _LENGTH.search(received, 0, head)
        if length is None:
            raise LoadFailed("answered without Content-Length")
        body = received[head + 4 :]
        if len(body) < int(length[1]):
            return None
        self._received = b""
        return received[:head], body


class Load:
    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._requests = requests(plan)
        self._epoll = select.epoll()
        self._idle: deque[Connection] = deque()  # the one that was idle longest is next, so that none times out
        self._by_fd: dict[int, Connection] = {}
        self._whole = plan.whole.encode()
        self._answered = self._incomplete = self._errors = 0

    def _connect(self) -> None:
        connection = Connection(self._plan.port)
        self._by_fd[connection.fileno()] = connection
        self._epoll.register(connection.fileno(), select.EPOLLIN)
        self._idle.append(connection)

    def _completed(self, wait_s: float) -> Iterator[tuple[float, float]]:
        """When each search that is answered within `wait_s` was due, and when it was answered."""
        wait_s = max(0.0, wait_s)
        if self._plan.rate:  # epoll waits in whole milliseconds, select in microseconds
            select.select([self._epoll.fileno()], [], [], wait_s)
            wait_s = 0.0
        for fd, _ in self._epoll.poll(wait_s):
            connection = self._by_fd[fd]
            try:
                answer = connection.answer()
            except ConnectionError as error:
                if connection.due is not None:
                    raise LoadFailed("closed a connection instead of answering") from error
                self._idle.remove(connection)
                self._epoll.unregister(fd)
                del self._by_fd[fd]
                connection.close()
                self._connect()
                continue
            if answer is None:
                continue
            assert connection.due is not None
            due, connection.due = connection.due, None
            self._idle.append(connection)
            if self._counts(*answer):
                yield due, time.perf_counter()

    def _counts(self, head: bytes, body: bytes) -> bool:
        """Whether it is an answer of 200. Raises LoadFailed for one that may not be."""
        if head.startswith(_OK):
            self._answered += 1
            self._incomplete += self._whole not in body
            return True
        if not (self._plan.errors_too and head.startswith(_ERROR)):
            raise LoadFailed(f"answered {head[9:12].decode()}: {body[:500].decode(errors='replace')}")
        self._errors += 1
        return False

    def run(self) -> Outcome:
        """Raises LoadFailed."""
        plan = self._plan
        started = last_answer = time.perf_counter()
        begin = started + plan.warmup_s
        end = begin + plan.seconds
        interval = 1 / plan.rate if plan.rate else None
        apart_s = min(APART_S, plan.warmup_s / 2 / plan.connections)
        next_due, own_s = started, 0.0
        took: list[float] = []
        within = 0
        marks = deque([(begin, "begin"), (end, "end")])
        while True:
            now = time.perf_counter()
            opening = started + len(self._by_fd) * apart_s if len(self._by_fd) < plan.connections else None
            if opening is not None and now >= opening:
                self._connect()
                continue
            if marks and now >= marks[0][0]:
                mark = marks.popleft()[1]
                print(mark, flush=True)
                own_s = time.process_time() - own_s
            if interval is None:
                while self._idle and now < end:
                    self._idle.popleft().ask(next(self._requests), time.perf_counter())
            else:
                while self._idle and next_due <= now and next_due < end:
                    self._idle.popleft().ask(next(self._requests), next_due)
                    next_due += interval
            all_sent = now >= end if interval is None else next_due >= end
            if all_sent and not marks and len(self._idle) == len(self._by_fd):
                break
            wake = marks[0][0] if marks else now + PATIENCE_S
            if interval is not None and self._idle and not all_sent:
                wake = min(wake, next_due)
            if opening is not None:
                wake = min(wake, opening)
            for due, done in self._completed(wake - now):
                last_answer = done
                within += begin <= done < end
                if begin <= (done if interval is None else due) < end:
                    took.append(done - due)
            if time.perf_counter() - last_answer > PATIENCE_S and len(self._idle) < len(self._by_fd):
                raise LoadFailed(f"has not answered for {PATIENCE_S:g} s")
        if not took:
            raise LoadFailed(f"answered nothing in {plan.seconds:g} s")
        took.sort()
        return Outcome(
            answered=self._answered,
            incomplete=self._incomplete,
            errors=self._errors,
            rate=within / plan.seconds,
            p50_ms=took[len(took) // 2] * 1000,
            p99_ms=took[len(took) * 99 // 100] * 1000,
            own_us=own_s / max(1, within) * 1e6,
        )


def main() -> None:
    try:
        outcome = Load(Plan(**json.load(sys.stdin))).run()
    except (LoadFailed, OSError) as error:
        print(json.dumps({"failed": str(error)}))
    else:
        print(json.dumps(asdict(outcome)))


if __name__ == "__main__":
    main()
