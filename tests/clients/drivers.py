"""The same searches with each client of clients/."""

import asyncio
import json
import os
import shutil
import ssl
import subprocess
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import callerid_client
from tests.servers import Unavailable

#: For all clients, because it takes CPU time to make one. No test of these has TLS.
SSL_CONTEXT = ssl.create_default_context()


@dataclass
class Search:
    """One search by a client of its own."""

    url: str
    token: str
    number: str
    attempts: int = 3
    attempt_timeout_s: float = 2
    total_timeout_s: float = 4
    idempotency_key: str | None = None
    request_id: str | None = None

    def client_options(self) -> dict[str, Any]:
        names = ("attempts", "attempt_timeout_s", "total_timeout_s")
        options = {name: getattr(self, name) for name in names}
        return options | {"base_url": self.url, "token": self.token, "ssl_context": SSL_CONTEXT}

    def options(self) -> dict[str, Any]:
        return {"idempotency_key": self.idempotency_key, "request_id": self.request_id}


@dataclass
class Outcome:
    """`result`: with the names of the OpenAPI document, without what is absent. `error`: the class; `shown`: all that a
    program may print of the error and the client; `frames`: its traceback in the package, with local variables."""

    result: dict[str, Any] = field(default_factory=dict)
    error: str = ""
    message: str = ""
    detail: str = ""
    status: int | None = None
    request_id: str | None = None
    retry_after: int | None = None
    shown: str = ""
    frames: str = ""


def python(searches: Sequence[Search]) -> list[Outcome]:
    def run(search: Search) -> Outcome:
        with callerid_client.Client(**search.client_options()) as client:
            try:
                return _success(client.search(search.number, **search.options()))
            except callerid_client.CallerIdError as error:
                return _failure(error, client)

    with ThreadPoolExecutor(len(searches)) as pool:
        return list(pool.map(run, searches))


def python_async(searches: Sequence[Search]) -> list[Outcome]:
    async def run(search: Search) -> Outcome:
        async with callerid_client.AsyncClient(**search.client_options()) as client:
            try:
                return _success(await client.search(search.number, **search.options()))
            except callerid_client.CallerIdError as error:
                return _failure(error, client)

    async def run_all() -> list[Outcome]:
        return await asyncio.gather(*map(run, searches))

    return asyncio.run(run_all())


def _success(result: callerid_client.SearchResult) -> Outcome:
    def present(items: list[tuple[str, Any]]) -> dict[str, Any]:
        return {name: value for name, value in items if value is not None}

    return Outcome(asdict(result, dict_factory=present))


def _failure(error: callerid_client.CallerIdError, client: object) -> Outcome:
    name, shown = type(error).__name__, "".join(traceback.format_exception(error)) + repr((error, vars(error), client))
    fields = (name, str(error), error.detail, error.status, error.request_id, error.retry_after, shown)
    return Outcome({}, *fields, frames_below(error))


def frames_below(error: Exception) -> str:
    """The error as error reports have it: with local variables, of all functions below the one that caught it."""
    assert error.__traceback__
    below = error.__traceback__.tb_next
    return "".join(traceback.TracebackException(type(error), error, below, capture_locals=True).format())


def javascript(searches: Sequence[Search]) -> list[Outcome]:
    if not (node := shutil.which("node")):
        raise Unavailable("there is no node on PATH")
    done = subprocess.run(
        [node, str(Path(__file__).with_name("driver.mjs"))],
        input=json.dumps([asdict(search) for search in searches]),
        env={**os.environ, "NO_PROXY": "*"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return [Outcome(**outcome) for outcome in json.loads(done.stdout)]


CLIENTS: dict[str, Callable[[Sequence[Search]], list[Outcome]]] = {
    "python": python,
    "python async": python_async,
    "javascript": javascript,
}
