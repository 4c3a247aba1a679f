"""What an instance answers (SERVE), and that those for searches and for pages work together."""

import json
from collections.abc import Callable

import pytest
import requests
from django.core.exceptions import ImproperlyConfigured

from callerid_project.environment import Environment
from tests.api import NUMBER
from tests.load import create_tokens
from tests.metrics import scrape
from tests.service import Service

pytestmark = pytest.mark.once

PAGES = ("/", "/docs", "/schema", "/admin/login/", "/static/callerid/home.js")
PROBES = ("/livez", "/readyz", "/metrics")


def status(service: Service, path: str) -> int:
    return requests.get(service.url + path, allow_redirects=False, timeout=30).status_code


def test_an_instance_for_searches_has_no_pages(serve: Callable[..., Service]) -> None:
    service = serve(SERVE="search")
    (key,) = create_tokens(service, 1)
    answer = requests.post(f"{service.url}/callerid/search", json={"api_key": key, "query": NUMBER}, timeout=30)
    assert answer.status_code == 200
    assert {status(service, path) for path in PROBES} == {200}
    for path in (*PAGES, "/admin/", "/nowhere"):
        for headers in ({}, {"Accept": "text/html", "Cookie": "sessionid=x"}):
            gone = requests.get(service.url + path, headers=headers, timeout=30)
            assert (gone.status_code, gone.json()) == (404, {"detail": "Not found."}), path
            assert gone.headers["x-request-id"]
    assert requests.post(f"{service.url}/admin/login/", data={"a": "b"}, timeout=30).status_code == 404


def test_errors_of_an_instance_for_searches_are_json(serve: Callable[..., Service]) -> None:
    service = serve(SERVE="search", METRICS_NETWORKS="192.0.2.0/24")
    for path, headers, status in (
        ("/livez", {"Host": "elsewhere.example"}, 400),
        ("/metrics", {}, 404),
        ("/metrics", {"Accept": "text/html"}, 404),
    ):
        refused = requests.get(service.url + path, headers=headers, timeout=30)
        assert (refused.status_code, list(refused.json())) == (status, ["detail"]), path


def test_an_instance_for_the_console_has_no_searches(serve: Callable[..., Service]) -> None:
    service = serve(SERVE="console", SEARCH_URL="http://127.0.0.1:9")
    (key,) = create_tokens(service, 1)
    assert {status(service, path) for path in (*PAGES, *PROBES)} == {200}
    for path in ("/callerid/search", "/callerid/search/"):
        for body in (json.dumps({"api_key": key, "query": NUMBER}), ""):
            gone = requests.post(service.url + path, body, headers={"Content-Type": "application/json"}, timeout=30)
            assert (gone.status_code, gone.json()) == (404, {"detail": "Not found."})
    assert scrape(service.url).of("callerid_credits_total", kind="search") == 0


def test_an_unknown_value_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVE", "searches")
    with pytest.raises(ImproperlyConfigured, match=r"^SERVE must be one of all, search, console\.$"):
        Environment().choice("SERVE", "all", "search", "console")
