"""The rate limit over two instances, one of which has a wrong clock."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import requests

from tests import plugin
from tests.api import NUMBER
from tests.reliability import LONG
from tests.reliability.operations import serve_hosts
from tests.servers import Unavailable, required
from tests.service import Service

pytestmark = [pytest.mark.once, pytest.mark.slow, pytest.mark.reliability]


@pytest.fixture
def wrong_clock() -> dict[str, str]:
    """The environment of a process whose clock is 20 s fast, by libfaketime."""
    with required():
        found = next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)
        if found is None:
            raise Unavailable("libfaketime (Debian's package faketime) is not installed")
    return {"LD_PRELOAD": str(found), "FAKETIME": "+20s", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}


@pytest.fixture(params=["right clocks", "one clock 20 s fast"])
def hosts(
    request: pytest.FixtureRequest, serve: Callable[..., Service], postgres_url: str, redis_url: str
) -> list[Service]:
    rate = {"RATE_LIMIT": "30/m" if LONG else "30/s", "DATABASE_URL": postgres_url, "REDIS_URL": redis_url}
    if request.param == "right clocks":
        return serve_hosts(serve, rate)
    shared = {**rate, **plugin.generated_keys()}
    right = serve_hosts(serve, shared, count=1)
    return [*right, *serve_hosts(serve, {**shared, **request.getfixturevalue("wrong_clock")}, count=1)]


def test_no_window_holds_more_than_the_limit(hosts: list[Service]) -> None:
    """Each accepted request was counted between being sent and being answered, so requests whose answers all came
    within a window after the first was sent were counted in one window."""
    window_s, duration_s = (60, 600) if LONG else (1, 4)
    key = hosts[0].manage("create_token", "limit", "--credits", "100000", "--quiet").strip()
    accepted: list[tuple[float, float]] = []
    refused: list[float] = []
    ends_at = time.monotonic() + duration_s
    lock = threading.Lock()

    def search(client: int) -> None:
        session = requests.Session()
        while (sent_at := time.monotonic()) < ends_at:
            url = hosts[client % len(hosts)].url
            body = {"api_key": key, "query": NUMBER}
            response = session.post(f"{url}/callerid/search", json=body, timeout=60)
            with lock:
                if response.status_code == 200:
                    accepted.append((sent_at, time.monotonic()))
                else:
                    assert response.status_code == 429
                    refused.append(sent_at)
            if LONG:
                time.sleep(4)  # by 8 clients: two requests a second

    with ThreadPoolExecutor(8) as clients:
        list(clients.map(search, range(8)))
    most = max(
        sum(sent_at >= first and answered_at < first + window_s for sent_at, answered_at in accepted)
        for first, _ in accepted
    )
    assert most <= 30
    assert refused
    # Nor are fewer accepted than the limit allows: 30 at once, and then 30 in each window.
    assert len(accepted) >= 30 * (duration_s / window_s - 1)


@pytest.mark.parametrize(("own", "limit"), [([], 30), (["--rate-limit", "45"], 45)], ids=["setting", "own"])
def test_burst_over_all_instances_gets_exactly_the_limit(
    serve: Callable[..., Service], postgres_url: str, redis_url: str, own: list[str], limit: int
) -> None:
    hosts = serve_hosts(serve, {"DATABASE_URL": postgres_url, "REDIS_URL": redis_url, "RATE_LIMIT": "30/h"})
    key = hosts[0].manage("create_token", "limit", "--credits", "1000", "--quiet", *own).strip()

    def search(index: int) -> int:
        url = hosts[index % 2].url
        return requests.post(f"{url}/callerid/search", json={"api_key": key, "query": NUMBER}, timeout=60).status_code

    with ThreadPoolExecutor(16) as clients:
        statuses = list(clients.map(search, range(300)))
    assert (statuses.count(200), statuses.count(429)) == (limit, 300 - limit)
