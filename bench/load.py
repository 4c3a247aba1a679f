"""The load generator: sends searches over keep-alive connections from a process of its own, at some 30 µs of CPU each.

`python -m bench.load` reads a LoadPlan as JSON from stdin. It prints `begin` and `end` around the measured period, then
one line of JSON: a LoadResult, or `{"failed": "<sentence>"}`. An answer other than 200 is a failure, unless
`allow_errors` is set.

Closed loop: each connection sends its next search when the answer arrives. Open loop (`rate`): searches are scheduled
at even intervals, independent of the answers, and latency counts from the scheduled time, so that it includes the whole
of a stall (no coordinated omission).
"""

import json
import math
import re
import select
import socket
import sys
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from bench.dataset import number

#: The run fails when no answer arrives for this long.
TIMEOUT_S = 10.0
#: The longest pause between opening two connections; the first ones send searches meanwhile. If all were opened at
#: once, their searches would stay in step.
CONNECT_INTERVAL_S = 0.01
_LENGTH = re.compile(rb"content-length: *([0-9]+)", re.IGNORECASE)
_OK, _ERROR, _REFUSED = b"HTTP/1.1 200", b"HTTP/1.1 5", b"HTTP/1.1 503"


class LoadError(Exception):
    """An answer is missing, malformed or not 200; the message says which."""


@dataclass(frozen=True)
class LoadPlan:
    """Connections are spread over `ports` alike. Searches cycle through `api_keys` and through `distinct` numbers,
    starting with the index `first`. `rate`: searches per second; None: closed loop. `complete_text`: a text that every
    complete answer contains. `allow_errors`: 5xx answers are counted instead of failing the run. `deadline_s`: see
    LoadResult."""

    ports: list[int]
    api_keys: list[str]
    connections: int
    seconds: float
    warmup_s: float
    rate: float | None = None
    first: int = 0
    distinct: int = 10_000
    complete_text: str = '"source_a_available":true'
    allow_errors: bool = False
    deadline_s: float = 1.5


@dataclass(frozen=True)
class LoadResult:
    """`answered`, `incomplete`, `refused`, `errors`: the number of 200 answers, of the incomplete ones among them, of
    503 answers, and of other 5xx answers in the whole run, including the warm-up. `slowest_refusal_ms`: the longest
    time from when a search was due until its 503, 0 without one. All other fields cover the 200 answers of the measured
    period. `rate_in_time`: the rate of those within `deadline_s`. `load_us`: the load generator's own CPU time per
    search."""

    answered: int
    incomplete: int
    refused: int
    slowest_refusal_ms: float
    errors: int
    rate: float
    rate_in_time: float
    p50_ms: float
    p99_ms: float
    load_us: float


def requests(plan: LoadPlan) -> Iterator[bytes]:
    heads = []
    for api_key in plan.api_keys:
        body = json.dumps({"api_key": api_key, "query": ""}).removesuffix('"}')
        length = len(body) + len(f'{number(0)}"}}')  # all numbers have as many digits
        heads.append(
            f"POST /callerid/search HTTP/1.1\r\nHost: 127.0.0.1:{plan.ports[0]}\r\nUser-Agent: bench\r\nAccept: */*\r\n"
            f"Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}".encode()
        )
    count = 0
    while True:
        yield b'%b%d"}' % (heads[count % len(heads)], number(plan.first + count % plan.distinct))
        count += 1


class Connection:
    """A keep-alive connection to `port`. `due`: the time from which the latency of its search counts; None when it is
    idle."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.due: float | None = None
        self._received = b""
        self._sock = socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_S)
        self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._sock.setblocking(False)
        self.fileno = self._sock.fileno
        self.close = self._sock.close

    def send(self, request: bytes, due: float) -> None:
        self.due = due
        if self._sock.send(request) != len(request):
            raise LoadError("accepted only a part of a request")

    def answer(self) -> tuple[bytes, bytes] | None:
        """Reads what has arrived. Returns head and body once the answer is complete. Raises LoadError, and
        ConnectionError when the connection is closed."""
        chunk = self._sock.recv(65536)
        if not chunk:
            raise ConnectionError
        self._received = received = self._received + chunk
        head = received.find(b"\r\n\r\n")
        if head < 0:
            return None
        length = _LENGTH.search(received, 0, head)
        if length is None:
            raise LoadError("answered without Content-Length")
        body = received[head + 4 :]
        if len(body) < int(length[1]):
            return None
        self._received = b""
        return received[:head], body


class Load:
    """One run of a plan, on one thread."""

    def __init__(self, plan: LoadPlan) -> None:
        self._plan = plan
        self._requests = requests(plan)
        self._epoll = select.epoll()
        self._idle: deque[Connection] = deque()  # the longest idle one is next, so that none times out
        self._by_fd: dict[int, Connection] = {}
        self._complete_text = plan.complete_text.encode()
        self._answered = self._incomplete = self._refused = self._errors = 0
        self._slowest_refusal_s = 0.0
        self._last_answer = time.perf_counter()

    def _connect(self, port: int) -> None:
        connection = Connection(port)
        self._by_fd[connection.fileno()] = connection
        self._epoll.register(connection.fileno(), select.EPOLLIN)
        self._idle.append(connection)

    def _completed(self, wait_s: float) -> Iterator[tuple[float, float]]:
        """Yields, for each search answered within `wait_s`, when it was due and when its answer arrived."""
        wait_s = max(0.0, wait_s)
        if self._plan.rate:  # epoll's resolution is a millisecond, select's a microsecond
            select.select([self._epoll.fileno()], [], [], wait_s)
            wait_s = 0.0
        for fd, _ in self._epoll.poll(wait_s):
            connection = self._by_fd[fd]
            try:
                answer = connection.answer()
            except ConnectionError as error:
                if connection.due is not None:
                    raise LoadError("closed a connection instead of answering") from error
                self._idle.remove(connection)
                self._epoll.unregister(fd)
                del self._by_fd[fd]
                connection.close()
                self._connect(connection.port)
                continue
            if answer is None:
                continue
            assert connection.due is not None
            due, connection.due = connection.due, None
            self._idle.append(connection)
            done = self._last_answer = time.perf_counter()
            if self._count(*answer, done - due):
                yield due, done

    def _count(self, head: bytes, body: bytes, seconds: float) -> bool:
        """Counts an answer and returns whether it is a 200. Raises LoadError when it is not allowed."""
        if head.startswith(_OK):
            self._answered += 1
            self._incomplete += self._complete_text not in body
            return True
        if not (self._plan.allow_errors and head.startswith(_ERROR)):
            raise LoadError(f"answered {head[9:12].decode()}: {body[:500].decode(errors='replace')}")
        if head.startswith(_REFUSED):
            self._refused += 1
            self._slowest_refusal_s = max(self._slowest_refusal_s, seconds)
        else:
            self._errors += 1
        return False

    def run(self) -> LoadResult:
        """Runs the plan. Raises LoadError."""
        plan = self._plan
        started = self._last_answer = time.perf_counter()
        begin = started + plan.warmup_s
        end = begin + plan.seconds
        interval = 1 / plan.rate if plan.rate else None
        connect_interval_s = min(CONNECT_INTERVAL_S, plan.warmup_s / 2 / plan.connections)
        next_due, cpu_s = started, 0.0
        latencies: list[float] = []
        completed = in_time = 0
        phases = deque([(begin, "begin"), (end, "end")])
        while True:
            now = time.perf_counter()
            connect_at = (
                started + len(self._by_fd) * connect_interval_s if len(self._by_fd) < plan.connections else None
            )
            if connect_at is not None and now >= connect_at:
                self._connect(plan.ports[len(self._by_fd) % len(plan.ports)])
                continue
            if phases and now >= phases[0][0]:
                phase = phases.popleft()[1]
                print(phase, flush=True)
                cpu_s = time.process_time() - cpu_s
            if interval is None:
                while self._idle and now < end:
                    self._idle.popleft().send(next(self._requests), time.perf_counter())
            else:
                while self._idle and next_due <= now and next_due < end:
                    self._idle.popleft().send(next(self._requests), next_due)
                    next_due += interval
            all_sent = now >= end if interval is None else next_due >= end
            if all_sent and not phases and len(self._idle) == len(self._by_fd):
                break
            wake_at = phases[0][0] if phases else now + TIMEOUT_S
            if interval is not None and self._idle and not all_sent:
                wake_at = min(wake_at, next_due)
            if connect_at is not None:
                wake_at = min(wake_at, connect_at)
            for due, done in self._completed(wake_at - now):
                completed += begin <= done < end
                in_time += begin <= done < end and done - due <= plan.deadline_s
                if begin <= (done if interval is None else due) < end:
                    latencies.append(done - due)
            if time.perf_counter() - self._last_answer > TIMEOUT_S and len(self._idle) < len(self._by_fd):
                raise LoadError(f"has not answered for {TIMEOUT_S:g} s")
        return self._result(latencies, completed=completed, in_time=in_time, cpu_s=cpu_s)

    def _result(self, latencies: list[float], *, completed: int, in_time: int, cpu_s: float) -> LoadResult:
        """`latencies` in seconds. Raises LoadError without any, unless errors are allowed."""
        seconds = self._plan.seconds
        if not latencies:
            if not self._plan.allow_errors:
                raise LoadError(f"answered nothing in {seconds:g} s")
            latencies = [math.inf]
        latencies.sort()
        return LoadResult(
            answered=self._answered,
            incomplete=self._incomplete,
            refused=self._refused,
            slowest_refusal_ms=self._slowest_refusal_s * 1000,
            errors=self._errors,
            rate=completed / seconds,
            rate_in_time=in_time / seconds,
            p50_ms=latencies[len(latencies) // 2] * 1000,
            p99_ms=latencies[len(latencies) * 99 // 100] * 1000,
            load_us=cpu_s / max(1, completed) * 1e6,
        )


def main() -> None:
    try:
        result = Load(LoadPlan(**json.load(sys.stdin))).run()
    except (LoadError, OSError) as error:
        print(json.dumps({"failed": str(error)}))
    else:
        print(json.dumps(asdict(result)))


if __name__ == "__main__":
    main()
