"""Two mock vendors on loopback that find every number after a delay: `python -m bench.mock_vendors <milliseconds>`.

Prints both ports in one line: the port of tests/presets/mock_a.toml (GET) and that of mock_b.toml (POST). One process
without a framework, to leave the CPU to the services that are measured.
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
class MockVendors:
    """`urls`: the base URLs of vendor A and vendor B."""

    urls: tuple[str, str]
    pid: int


@contextmanager
def run(answer_ms: int) -> Iterator[MockVendors]:
    """Runs both vendors in a separate process."""
    with subprocess.Popen(
        [sys.executable, "-m", "bench.mock_vendors", str(answer_ms)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            assert process.stdout is not None
            a, b = (f"http://127.0.0.1:{port}" for port in process.stdout.readline().split())
            yield MockVendors((a, b), process.pid)
        finally:
            process.kill()


def slot_settings(urls: tuple[str, str], presets: Path = PRESETS) -> dict[str, str]:
    """Returns the settings that bind both slots to the mock vendors."""
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


class MockVendor(asyncio.Protocol):
    """One connection; it handles one request at a time."""

    def __init__(self, response: bytes, delay_s: float) -> None:
        self._response, self._delay_s = response, delay_s
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
            asyncio.get_running_loop().call_later(self._delay_s, self._answer)

    def _answer(self) -> None:
        if not self._transport.is_closing():
            self._transport.write(self._response)


async def serve(delay_s: float) -> None:
    loop = asyncio.get_running_loop()
    servers = [
        await loop.create_server(partial(MockVendor, _response(document), delay_s), "127.0.0.1", 0, backlog=1024)
        for document in (GOOD_A, GOOD_B)
    ]
    print(*(server.sockets[0].getsockname()[1] for server in servers), flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(float(sys.argv[1]) / 1000))
