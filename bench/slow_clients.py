"""Clients that send a byte a second: `python -m bench.slow_clients <port> <number>`, of bench.overload.

Half of them never complete the headers, the others never complete the body. Each connects again when the service closes
its connection. Prints a line when all have connected, and runs until it is killed.
"""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from bench.database import ROOT

INTERVAL_S = 1.0
_START = b"POST /callerid/search HTTP/1.1\r\nHost: 127.0.0.1\r\n"
_HEADERS = _START + b"X-Padding: "
_BODY = _START + b'Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"api_key":"'


@contextmanager
def run(port: int, number: int) -> Iterator[None]:
    """Runs the clients in a separate process."""
    with subprocess.Popen(
        [sys.executable, "-m", "bench.slow_clients", str(port), str(number)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            yield
        finally:
            process.kill()


async def send_slowly(port: int, start: bytes, connected: asyncio.Semaphore) -> None:
    while True:
        with suppress(OSError):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            connected.release()
            with suppress(OSError):
                writer.write(start)
                while not writer.is_closing():
                    writer.write(b"a")
                    await asyncio.sleep(INTERVAL_S)
            writer.close()


async def serve(port: int, number: int) -> None:
    connected = asyncio.Semaphore(0)
    clients = [
        asyncio.create_task(send_slowly(port, _BODY if index % 2 else _HEADERS, connected)) for index in range(number)
    ]
    for _ in clients:
        await connected.acquire()
    print("connected", flush=True)
    await asyncio.gather(*clients)


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), int(sys.argv[2])))
