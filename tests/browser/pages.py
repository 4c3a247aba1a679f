"""Login, color schemes, screenshots, and the assertions that hold for every page.

Tests import `Page` and `expect` from here, so that they are skipped if Playwright is missing.
"""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlencode

from tests.servers import Unavailable, required

with required():
    try:
        from axe_playwright_python.sync_playwright import Axe
        from playwright.sync_api import Page, expect
    except ImportError as error:
        raise Unavailable(f"Playwright is not installed: {error}") from error

__all__ = [
    "ADMIN",
    "PASSWORD",
    "SCHEMES",
    "SETTLED",
    "Page",
    "assert_accessible",
    "assert_not_cut",
    "assert_title_not_cut",
    "expect",
    "login",
    "restored",
    "screenshots",
    "set_scheme",
]

ADMIN, PASSWORD = "admin", "correct horse battery staple"
WIDTHS = (1440, 1280, 390)
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")

# Axe would measure colours in the middle of a transition. Endless animations are not waited for.
SETTLED = """async () => {
    // A page that is not drawn gets no frame, and an animation that is paused does not finish.
    const limit = new Promise(done => setTimeout(done, 10_000));
    const frames = new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
    await Promise.race([frames, limit]);
    const ending = document.getAnimations().filter(a => a.effect.getComputedTiming().endTime !== Infinity);
    await Promise.race([Promise.allSettled(ending.map(a => a.finished)), limit]);
}"""


def login(page: Page, username: str = ADMIN, password: str = PASSWORD) -> None:
    """Every attempt counts against the limit of ten a minute: tests of pages behind the login use `admin_page`."""
    page.goto("/admin/login/?next=/admin/")
    page.get_by_label("Username").fill(username)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Log in").click()


# The console reads the system's colour scheme only when it loads.
_FOLLOW_SCHEME = """() => {
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    document.querySelector("html[x-data]")?.classList.toggle("dark", dark);
}"""


def fill_in_top_up(page: Page, query: str, *token_ids: int) -> None:
    """The form that tops up several tokens, which a search of the list finds: 5 credits for each."""
    page.goto(f"/admin/accounts/apitoken/?{urlencode({'q': query})}")
    for token_id in token_ids:
        page.locator(f'input[name="_selected_action"][value="{token_id}"]').check()
    page.get_by_role("combobox", name="Action").select_option("top_up_selected")
    page.get_by_role("button", name="Run").or_(page.get_by_role("button", name="Go")).first.click()
    page.get_by_label("Amount").fill("5")
    page.get_by_label(re.compile("^Reason")).fill("spring offer")


def set_scheme(page: Page, scheme: Literal["light", "dark", "null"]) -> None:
    """Emulate the system's preference; `null`: the browser's default."""
    page.emulate_media(color_scheme=scheme)
    page.evaluate(_FOLLOW_SCHEME)


@contextmanager
def restored(page: Page) -> Iterator[None]:
    """Afterwards the page has its size and the browser's default colour scheme again."""
    size = page.viewport_size
    assert size is not None
    try:
        yield
    finally:
        page.set_viewport_size(size)
        set_scheme(page, "null")


def assert_accessible(page: Page) -> None:
    """axe-core finds no violation of serious or critical impact, in the light and in the dark scheme.

    It runs through the browser's debugger, so the page keeps its content security policy.
    """
    found: dict[str, None] = {}
    with restored(page):
        for scheme in SCHEMES:
            set_scheme(page, scheme)
            page.evaluate(SETTLED)
            violations: list[dict[str, Any]] = Axe().run(page).response["violations"]
            for violation in violations:
                if violation["impact"] in ("serious", "critical"):
                    for node in violation["nodes"]:
                        found[f"{violation['id']} at {node['target']} ({scheme}): {violation['help']}"] = None
    assert not found, f"{page.url} is not accessible:\n" + "\n".join(found)


def assert_not_cut(page: Page) -> None:
    """The page does not scroll horizontally at any width."""
    with restored(page):
        for width in (*WIDTHS, 320):
            page.set_viewport_size({"width": width, "height": 900})
            page.evaluate(SETTLED)
            wide, room = page.evaluate("[document.scrollingElement.scrollWidth, innerWidth]")
            assert wide <= room, f"{page.url} is {wide} pixels wide in a window of {room}"


def assert_title_not_cut(page: Page) -> None:
    """On a phone the title wraps instead of ending in dots."""
    with restored(page):
        page.set_viewport_size({"width": 390, "height": 900})
        cut = page.evaluate(
            "[...document.querySelectorAll('h1, h1 *')].filter(e => e.scrollWidth > e.clientWidth + 1 && e.clientWidth)"
            ".map(e => e.textContent.trim())"
        )
    assert not cut, f"{page.url} cuts its title: {cut}"


def screenshots(page: Page, name: str) -> None:
    """Save the whole page at every width, light and dark, in SCREENSHOTS_DIR, if that is set."""
    if not (directory := os.environ.get("SCREENSHOTS_DIR")):
        return
    with restored(page):
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            for scheme in SCHEMES:
                set_scheme(page, scheme)
                page.evaluate(SETTLED)
                page.screenshot(path=Path(directory) / f"{name}-{width}-{scheme}.png", full_page=True)
