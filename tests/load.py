"""Searches from several threads while a test breaks something."""

import itertools
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import requests

from tests.api import NUMBER
from tests.service import Service

TIMEOUT_S = 20


@dataclass(frozen=True, slots=True)
class Answer:
    """`status` 0: the connection broke. `at`: when it arrived, by time.monotonic(). `waited_s`: since it was sent."""

    api_key: str
    idempotency_key: str
    status: int
    at: float
    waited_s: float
    number: str = NUMBER


class Load:
    """`with Load(...) as load`: searches by the API keys in turn, `rate` a second, each with an Idempotency-Key,
    which is its request id too, for the phone numbers in turn."""

    def __init__(
        self,
        service: Service,
        api_keys: list[str],
        *,
        rate: float,
        threads: int = 8,
        phone_numbers: Sequence[str] = (NUMBER,),
    ) -> None:
        self._service, self._api_keys, self._pause_s = service, api_keys, threads / rate
        self._phone_numbers = phone_numbers
        self._numbers, self._stopped = itertools.count(), threading.Event()
        self._threads = [threading.Thread(target=self._run) for _ in range(threads)]
        self._changed = threading.Condition()
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

    def wait_for_successes(self, count: int, *, since: float, timeout_s: float) -> float:
        """When the first of `count` successes was answered that were sent after `since` (time.monotonic)."""

        def successes() -> list[float]:
            return [each.at for each in self.answers if each.status == 200 and each.at - each.waited_s > since]

        with self._changed:
            assert self._changed.wait_for(lambda: len(successes()) >= count, timeout_s), self._service.log()[-3000:]
            return min(successes())

    def _run(self) -> None:
        with requests.Session() as session:
            while not self._stopped.wait(self._pause_s):
                number = next(self._numbers)
                api_key = self._api_keys[number % len(self._api_keys)]
                searched = self._phone_numbers[number % len(self._phone_numbers)]
                answer = search(self._service, session, api_key, f"load-{number}", searched)
                with self._changed:
                    self.answers.append(answer)
                    self._changed.notify_all()


def search(
    service: Service, session: requests.Session, api_key: str, idempotency_key: str, number: str = NUMBER
) -> Answer:
    began = time.monotonic()
    try:
        status = session.post(
            f"{service.url}/callerid/search",
            json={"api_key": api_key, "query": number},
            headers={"Idempotency-Key": idempotency_key, "X-Request-ID": idempotency_key},
            timeout=TIMEOUT_S,
        ).status_code
    except requests.RequestException:
        status = 0
    now = time.monotonic()
    return Answer(api_key, idempotency_key, status, now, now - began, number)


def create_tokens(service: Service, count: int, credits: int = 10_000) -> list[str]:
    script = (
        "from accounts import tokens\n"
        f"for _ in range({count}): print(tokens.issue(name='load', initial_credits={credits}, actor='test').api_key)"
    )
    return service.manage("shell", "--no-imports", "-c", script).split()
