"""Two vendors on loopback that always know the number, after a while: `python -m bench.vendor <milliseconds>`.

Says both ports in one line: the one for tests/presets/mock_a.toml, which is asked by GET, and the one for mock_b.toml,
by POST. One process without a framework, so that it takes little from the searches beside it.
"""

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from bench.database import ROOT
from tests.upstream import GOOD_A, GOOD_B

PRESETS = ROOT / "tests" / "presets"
_LENGTH = re.compile(rb"content-length: *([0-9]+)", re.IGNORECASE)


@dataclass(frozen=True)
class Vendors:
    """`urls`: of A and of B."""

    urls: tuple[str, str]
    pid: int


@contextmanager
def vendors(answer_ms: int) -> Iterator[Vendors]:
    """Both, in a process of their own."""
    with subprocess.Popen(
        [sys.executable, "-m", "bench.vendor", str(answer_ms)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            assert process.stdout is not None
            a, b = (f"http://127.0.0.1:{port}" for port in process.stdout.readline().split())
            yield Vendors((a, b), process.pid)
        finally:
            process.kill()


def bound(urls: tuple[str, str], presets: Path = PRESETS) -> dict[str, str]:
    """What binds both slots of ours to them."""
    return {
        "SOURCE_A": "mock_a",
        "SOURCE_B": "mock_b",
        "PRESET_DIR": str(presets),
        "MOCK_A_KEY": "a",
        "MOCK_B_KEY": "b",
        "MOCK_A_BASE_URL": urls[0],
        "MOCK_B_BASE_URL": urls[1],
    }


def _response(document: object) -> bytes:
    body = json.dumps(document).encode()
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


class Vendor(asyncio.Protocol):
    """One connection, one request at a time."""

    def __init__(self, response: bytes, after_s: float) -> None:
        self._response, self._after_s = response, after_s
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        head = self._received.find(b"\r\n\r\n")
        if head < 0:
            return
        length = _LENGTH.search(self._received, 0, head)
        if len(self._received) >= head + 4 + (int(length[1]) if length else 0):
            self._received = b""
            asyncio.get_running_loop().call_later(self._after_s, self._answer)

    def _answer(self) -> None:
        if not self._transport.is_closing():
            self._transport.write(self._response)


async def serve(after_s: float) -> None:
    loop = asyncio.get_running_loop()
    servers = [
        await loop.create_server(partial(Vendor, _response(document), after_s), "127.0.0.1", 0, backlog=1024)
        for document in (GOOD_A, GOOD_B)
    ]
    print(*(server.sockets[0].getsockname()[1] for server in servers), flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(float(sys.argv[1]) / 1000))
