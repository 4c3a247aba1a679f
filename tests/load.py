"""Searches from several threads while a test breaks something, and what became of each."""

import http.client
import itertools
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from tests.api import NUMBER
from tests.service import Service

TIMEOUT_S = 20


def wait_for(condition: Callable[[], object], timeout_s: float = 60) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@dataclass(frozen=True, slots=True)
class Answer:
    """`status` 0: there was none, for `error`. `at`: when it arrived, by time.monotonic(). `waited_s`: since it was
    sent."""

    api_key: str
    idempotency_key: str
    number: str
    status: int
    error: str
    at: float
    waited_s: float


class Client:
    """Searches over one connection as long as the server keeps it open, or over a new one for each (`keep_alive`)."""

    def __init__(self, service: Service, *, keep_alive: bool = True) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=TIMEOUT_S)
        self._keep_alive = keep_alive

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._connection.close()

    def search(self, api_key: str, idempotency_key: str, number: str = NUMBER) -> Answer:
        """The key is the request's id too."""
        body = json.dumps({"api_key": api_key, "query": number})
        headers = {
            "Content-Type": "application/json",
            "Idempotency-Key": idempotency_key,
            "X-Request-ID": idempotency_key,
        }
        began, status, failure = time.monotonic(), 0, ""
        try:
            self._connection.request("POST", "/callerid/search", body, headers)
            response = self._connection.getresponse()
            response.read()
            status = response.status
        except (OSError, http.client.HTTPException) as error:
            failure = f"{type(error).__name__}: {error}"
        if failure or not self._keep_alive:
            self._connection.close()
        now = time.monotonic()
        return Answer(api_key, idempotency_key, number, status, failure, now, now - began)

    def retry(self, answer: Answer, timeout_s: float = 60) -> None:
        """Until it succeeds."""
        wait_for(
            lambda: self.search(answer.api_key, answer.idempotency_key, answer.number).status == 200,
            timeout_s=timeout_s,
        )


class Load:
    """`with Load(...) as load`: searches by the API keys (default: a new one) and for the phone numbers in turn, each
    with an Idempotency-Key of its own; `keep_alive` and `new` threads (see Client), `rate` searches a second at most.
    `others`: further instances, among which the threads are spread.
    """

    def __init__(
        self,
        service: Service,
        api_keys: list[str] | None = None,
        *,
        others: Sequence[Service] = (),
        keep_alive: int = 8,
        new: int = 0,
        rate: float = 1000,
        phone_numbers: Sequence[str] = (NUMBER,),
    ) -> None:
        self._service, self._phone_numbers = service, phone_numbers
        self._api_keys = api_keys or create_tokens(service, 1, credits=1_000_000)
        self._pause_s = (keep_alive + new) / rate
        self._numbers, self._stopped = itertools.count(), threading.Event()
        instances = itertools.cycle([service, *others])
        clients = [Client(next(instances), keep_alive=kept) for kept in [True] * keep_alive + [False] * new]
        self._threads = [threading.Thread(target=self._run, args=(client,)) for client in clients]
        self.answers: list[Answer] = []

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stopped.set()
        for thread in self._threads:
            thread.join()

    def statuses(self) -> Counter[int]:
        return Counter(answer.status for answer in self.answers)

    def failures(self) -> list[Answer]:
        """What did not succeed."""
        return [answer for answer in self.answers if answer.status != 200]

    def more(self, searches: int) -> None:
        """Return when so many more searches have ended."""
        enough = len(self.answers) + searches
        wait_for(lambda: len(self.answers) >= enough)

    def wait_for_successes(self, count: int, *, since: float, timeout_s: float) -> float:
        """When the first of `count` successes was answered that were sent after `since` (time.monotonic)."""

        def successes() -> list[float]:
            return [each.at for each in self.answers.copy() if each.status == 200 and each.at - each.waited_s > since]

        wait_for(lambda: len(successes()) >= count, timeout_s)
        return min(successes())

    def debits(self) -> int:
        """How many of the ledger's debits are of such searches."""
        found = "CreditEntry.objects.filter(kind='search', request_id__startswith='load-')"
        script = f"from accounts.models import *; print({found}.count())"
        return int(self._service.manage("shell", "--no-imports", "-c", script))

    def _run(self, client: Client) -> None:
        with client:
            while not self._stopped.wait(self._pause_s):
                number = next(self._numbers)
                api_key = self._api_keys[number % len(self._api_keys)]
                searched = self._phone_numbers[number % len(self._phone_numbers)]
                self.answers.append(client.search(api_key, f"load-{number}", searched))


def create_tokens(service: Service, count: int, credits: int = 10_000) -> list[str]:
    script = (
        "from accounts import tokens\n"
        f"for _ in range({count}): print(tokens.issue(name='load', initial_credits={credits}, actor='test').api_key)"
    )
    return service.manage("shell", "--no-imports", "-c", script).split()
