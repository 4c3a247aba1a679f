"""Load on a running service: threads that search without pause, and what became of each request."""

import http.client
import json
import threading
import time
from collections import Counter
from collections.abc import Callable

from tests.api import NUMBER
from tests.service import Service

CREDITS = 1_000_000


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


class Load:
    """`keep_alive` threads use one connection as long as the server keeps it open; `new` ones connect for each request.

    A thread ends when its connection is refused, which is no failed request: the client knows that nothing was sent.
    """

    def __init__(self, service: Service, *, keep_alive: int = 0, new: int = 0, pause_s: float = 0.0) -> None:
        made = json.loads(service.manage("create_token", "load", "--credits", str(CREDITS), "--json"))
        self.service, self.token_id = service, made["id"]
        self._body = json.dumps({"api_key": made["api_key"], "query": NUMBER})
        self._pause_s = pause_s
        self.statuses: Counter[int] = Counter()
        #: What requests ended with that got no response.
        self.failures: list[str] = []
        self.refused = 0
        self._lock, self._stop = threading.Lock(), threading.Event()
        kinds = [True] * keep_alive + [False] * new
        self._threads = [threading.Thread(target=self._search_on, args=(kept,)) for kept in kinds]

    def __enter__(self) -> "Load":
        for thread in self._threads:
            thread.start()
        self.more(50)
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def more(self, requests: int) -> None:
        """Return when so many more requests have been answered."""
        enough = self.statuses.total() + requests
        wait_for(lambda: self.statuses.total() >= enough)

    def debits(self) -> int:
        script = f"from accounts.models import *; print({CREDITS} - ApiToken.objects.get(pk={self.token_id}).credits)"
        return int(self.service.manage("shell", "--no-imports", "-c", script))

    def _search_on(self, keep_alive: bool) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.service.port, timeout=60)
        while not self._stop.wait(self._pause_s):
            if connection.sock is None:
                try:
                    connection.connect()
                except ConnectionRefusedError:
                    self.refused += 1
                    return
                except OSError as error:
                    self._failed(error)
                    continue
            try:
                connection.request("POST", "/callerid/search", self._body, headers={"Content-Type": "application/json"})
                response = connection.getresponse()
                response.read()
            except (OSError, http.client.HTTPException) as error:
                self._failed(error)
                connection.close()
                continue
            with self._lock:
                self.statuses[response.status] += 1
            if not keep_alive:
                connection.close()
        connection.close()

    def _failed(self, error: Exception) -> None:
        with self._lock:
            self.failures.append(f"{type(error).__name__}: {error}")
