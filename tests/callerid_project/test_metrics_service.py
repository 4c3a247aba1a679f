"""/metrics of a service with two workers, after all kinds of requests, and after both workers were killed."""

import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
import requests

from tests import upstream
from tests.api import NUMBER
from tests.metrics import promtool, scrape
from tests.mock_vendors import KEYS, PRESETS
from tests.servers import RedisServer
from tests.service import Service
from tests.upstream import Upstream

pytestmark = [pytest.mark.once, pytest.mark.slow]


@pytest.fixture
def vendor() -> Iterator[Upstream]:
    server = Upstream(upstream.says({**upstream.GOOD_A, **upstream.GOOD_B})).start()
    yield server
    server.stop()


def test_figures_are_exact_and_survive_both_workers(
    serve: Callable[..., Service], vendor: Upstream, redis_server: RedisServer, tmp_path: Path
) -> None:
    sources = {"SOURCE_A": "directory,mock_a", "SOURCE_B": "complaints,mock_b", "PRESET_DIR": str(PRESETS)}
    urls = {"MOCK_A_BASE_URL": vendor.url, "MOCK_B_BASE_URL": vendor.url}
    limits = {"WORKERS": "2", "RATE_LIMIT": "1000/m", "TMPDIR": str(tmp_path)}
    service = serve(**sources, **urls, **KEYS, REDIS_URL=redis_server.url, **limits)
    (directory,) = tmp_path.glob("callerid-metrics-*")
    assert directory.stat().st_mode & 0o077 == 0
    api_key = service.manage("create_token", "metrics-canary", "--credits", "26", "--quiet").strip()
    sent: Counter[str] = Counter()

    def search(status: int, key: str = api_key, query: str = NUMBER, **headers: str) -> None:
        body = {"api_key": key, "query": query}
        answer = requests.post(f"{service.url}/callerid/search", json=body, headers=headers, timeout=30)
        assert answer.status_code == status
        sent[f"{status // 100}xx"] += 1

    def traffic() -> None:
        """For each worker: a new connection may come to either."""
        for _ in range(12):
            search(200)
        search(200, **{"Idempotency-Key": "k"})
        search(401, "eyJhbGciOiJIUzI1NiJ9.e30.AAAA")
        search(400, query="junk")

    traffic()
    vendor.behave_as(upstream.FAULTS["500"][0])
    for last in range(5):
        search(500, query=f"4930231250{last:02d}")
    killed = service.workers()
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    while not (service.answers() and not set(killed) & set(service.workers())):
        time.sleep(0.05)
    traffic()
    figures = scrape(service.url)

    searches = partial(figures.of, "callerid_searches_total")
    assert searches() == sum(sent.values())
    assert searches(outcome="found_both") == 25
    assert searches(outcome="replayed") == 1
    assert searches(outcome="unauthorized") == figures.of("callerid_failed_authentications_total") == 2
    assert (searches(outcome="invalid"), searches(outcome="failed")) == (2, 5)
    assert figures.of("callerid_credits_total", kind="search") == 25
    lookups = partial(figures.of, "callerid_source_lookups_total")
    assert lookups(source="directory") == 30
    calls = partial(figures.of, "callerid_source_call_duration_seconds_count", source="mock_a")
    assert (calls(outcome="found"), lookups(source="mock_a", outcome="cached_found")) == (1, 24)
    assert calls(outcome="failed") == lookups(source="mock_a", outcome="unavailable") == 5
    answered = partial(figures.of, "callerid_http_request_duration_seconds_count", page="search")
    assert {status: answered(status=status) for status in sent} == dict(sent)
    assert figures.of("callerid_build_info") == 1
    assert figures.of("callerid_rate_limit_fallbacks_total") == 0

    vendor.behave_as(upstream.says({**upstream.GOOD_A, **upstream.GOOD_B}))
    redis_server.stop()  # and with it the cached answers
    search(200)
    search(403)
    text = requests.get(f"{service.url}/metrics", timeout=30).text
    assert scrape(service.url).of("callerid_rate_limit_fallbacks_total", limit="requests") == 2
    assert promtool("check", "metrics", stdin=text) == ""
    personal = [api_key, NUMBER, NUMBER[-6:], "metrics-canary", "Example", *KEYS.values(), "eyJ"]
    assert [word for word in personal if word in text] == []
    assert service.stop() == 0
    assert not directory.exists()
