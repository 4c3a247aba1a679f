"""The documentation site in a browser: no request to another origin, not cut, readable in both color schemes."""

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.browser.pages import SCHEMES, assert_accessible, expect
from tests.browser.watch import Watch
from tests.docs_site import built_site

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.once, pytest.mark.slow]


class _Handler(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_site(tmp_path_factory.mktemp("docs"))


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, directory=str(site))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def page(browser: "Browser", address: str) -> Iterator["Page"]:
    watch = Watch(address)
    with browser.new_context(base_url=address, viewport={"width": 1440, "height": 900}) as context:
        watch.attach(context)
        yield context.new_page()
    assert not watch.problems, "\n".join(watch.problems)


def test_no_page_asks_another_origin_or_is_cut(page: "Page", site: Path) -> None:
    names = sorted(str(path.relative_to(site)) for path in site.rglob("*.html"))
    assert "index.html" in names
    page.set_viewport_size({"width": 390, "height": 844})
    cut = []
    for name in names:
        page.goto(f"/{name}")
        expect(page.locator("h1").first).to_be_visible()
        if page.evaluate("document.scrollingElement.scrollWidth > innerWidth"):
            cut.append(name)
    assert not cut, "wider than a telephone's screen"


def test_the_search_finds_a_page_without_the_network(page: "Page") -> None:
    page.goto("/index.html")
    page.keyboard.press("/")
    page.keyboard.type("idempotency", delay=30)
    expect(page.get_by_text("Credits and retries").last).to_be_visible()


@pytest.mark.parametrize("name", ["index", "limits"])
def test_page_is_accessible_in_both_color_schemes(page: "Page", name: str) -> None:
    brightness = {}
    for scheme in SCHEMES:
        page.emulate_media(color_scheme=scheme)
        page.goto(f"/{name}.html")
        brightness[scheme] = page.evaluate(
            "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).map(Number)"
        )
    assert sum(brightness["dark"]) < 240 < 600 < sum(brightness["light"])
    assert_accessible(page)
