"""/metrics of an instance after all kinds of requests: its own figures, which begin with the process."""

from collections.abc import Callable, Iterator
from functools import partial

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


def test_figures_are_exact_and_those_of_one_process(
    serve: Callable[..., Service], vendor: Upstream, redis_server: RedisServer
) -> None:
    sources = {"SOURCE_A": "directory,mock_a", "SOURCE_B": "complaints,mock_b", "PRESET_DIR": str(PRESETS)}
    urls = {"MOCK_A_BASE_URL": vendor.url, "MOCK_B_BASE_URL": vendor.url}
    service = serve(**sources, **urls, **KEYS, REDIS_URL=redis_server.url, RATE_LIMIT="1000/m")
    api_key = service.manage("create_token", "metrics-canary", "--credits", "13", "--quiet").strip()

    def search(status: int, key: str = api_key, query: str = NUMBER) -> None:
        body = {"api_key": key, "query": query}
        assert requests.post(f"{service.url}/callerid/search", json=body, timeout=30).status_code == status

    for _ in range(12):
        search(200)
    search(401, "eyJhbGciOiJIUzI1NiJ9.e30.AAAA")
    vendor.behave_as(upstream.FAULTS["500"][0])
    for last in range(5):
        search(500, query=f"4930231250{last:02d}")
    figures = scrape(service.url)
    searches = partial(figures.of, "callerid_searches_total")
    assert (searches(), searches(outcome="found_both"), searches(outcome="failed")) == (18, 12, 5)
    assert searches(outcome="unauthorized") == figures.of("callerid_failed_authentications_total") == 1
    assert figures.of("callerid_credits_total", kind="search") == 12
    lookups = partial(figures.of, "callerid_source_lookups_total")
    calls = partial(figures.of, "callerid_source_call_duration_seconds_count", source="mock_a")
    assert (calls(outcome="found"), lookups(source="mock_a", outcome="cached_found")) == (1, 11)
    assert calls(outcome="failed") == lookups(source="mock_a", outcome="unavailable") == 5
    answered = partial(figures.of, "callerid_http_request_duration_seconds_count", page="search")
    assert {status: answered(status=status) for status in ("2xx", "4xx", "5xx")} == {"2xx": 12, "4xx": 1, "5xx": 5}

    vendor.behave_as(upstream.says({**upstream.GOOD_A, **upstream.GOOD_B}))
    redis_server.stop()  # and with it the cached answers
    search(200)
    text = requests.get(f"{service.url}/metrics", timeout=30).text
    assert scrape(service.url).of("callerid_rate_limit_fallbacks_total", limit="requests") == 1
    assert promtool("check", "metrics", stdin=text) == ""
    personal = [api_key, NUMBER, NUMBER[-6:], "metrics-canary", "Example", *KEYS.values(), "eyJ"]
    assert [word for word in personal if word in text] == []
    service.kill()
    after = scrape(service.start().url)
    assert after.of("callerid_searches_total") == 0
    assert ("callerid_searches_total", (("outcome", "failed"),)) in after
