"""The pictures of the documentation. SCREENSHOTS_DIR=docs/images renews them (CONTRIBUTING.md)."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.browser.pages import ADMIN, PASSWORD, expect, login
from tests.browser.watch import Watch
from tests.docs_site import PICTURES
from tests.plugin import of_addons
from tests.service import Service, serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = [pytest.mark.once, pytest.mark.slow]

# Prices and a vendor's statistics are shown; no vendor is called.
ENVIRONMENT = {
    "SOURCE_A": "directory,twilio,geography",
    "SOURCE_A_PRICE": "twilio=0.01",
    "TWILIO_ACCOUNT_SID": "AC00000000000000000000000000000000",
    "TWILIO_AUTH_TOKEN": "unused",
    "TWILIO_BASE_URL": "http://127.0.0.1:9",
    "CREDIT_PRICE": "0.03",
    "EMAIL_URL": "smtp://127.0.0.1:9",
    "EMAIL_FROM": "callerid@example.org",
    **of_addons("BROWSER_ENVIRONMENT"),
}

_FILL = f"""
import json
from django.contrib.auth import get_user_model
from accounts import tokens
from phonebook.imports.sample_data import load_sample_data
from tests.month import fill

get_user_model().objects.create_superuser({ADMIN!r}, password={PASSWORD!r})
load_sample_data()
made = fill(source_a="twilio", source_b="complaints")
made["key"] = tokens.issue(name="Front desk", initial_credits=500, actor={ADMIN!r}, reason="Order 17").api_key
print(json.dumps(made))
"""


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, dict[str, Any]]]:
    shared = tmp_path_factory.getbasetemp()
    with serving(tmp_path_factory.mktemp("images"), ENVIRONMENT, shared=shared) as service:
        yield service, json.loads(service.manage("shell", "-c", _FILL).splitlines()[-1])


@pytest.fixture
def page(browser: "Browser", filled: tuple[Service, dict[str, Any]]) -> Iterator["Page"]:
    service, _ = filled
    watch = Watch(service.url)
    with browser.new_context(base_url=service.url, color_scheme="light", reduced_motion="reduce") as context:
        watch.attach(context)
        yield context.new_page()
    assert not watch.problems, "\n".join(watch.problems)


def take(page: "Page", name: str, height: int, width: int = 1280) -> None:
    """Save what a window of this size shows, if SCREENSHOTS_DIR is set."""
    assert name in PICTURES
    page.set_viewport_size({"width": width, "height": height})
    page.wait_for_timeout(300)  # charts fit themselves to the window
    if directory := os.environ.get("SCREENSHOTS_DIR"):
        page.screenshot(path=Path(directory) / f"{name}.png")


def test_pictures_of_the_documentation(page: "Page", filled: tuple[Service, dict[str, Any]]) -> None:
    _, made = filled
    page.goto("/")
    page.get_by_label("API token", exact=True).fill(made["key"])
    page.get_by_label("Phone number").fill("+49 30 23125555")
    page.get_by_role("button", name="Search").click()
    expect(page.locator("#phone")).to_contain_text("Spam")
    expect(page.locator("#phone")).to_contain_text("Berlin")
    page.evaluate("scrollTo(0, 0)")
    take(page, "home-search", 880)

    login(page)
    expect(page.get_by_role("heading", name="Needs attention")).to_be_visible()
    take(page, "console-dashboard", 1180)
    for name, path, text, height in (
        ("console-token", f"accounts/apitoken/{made['token']}/change/", "Requests in 30 days", 860),
        ("console-customer", f"accounts/customer/{made['customer']}/change/", "API tokens", 860),
        ("console-ledger-entry", f"accounts/creditentry/{made['search']}/change/", "Check a number", 1020),
        ("console-sources", "monitoring/source/", "twilio", 720),
        ("console-source", "monitoring/source/twilio/change/", "twilio", 980),
        *of_addons("DOCS_IMAGES").values(),
    ):
        page.goto(f"/admin/{path}")
        expect(page.get_by_role("main")).to_contain_text(text)
        take(page, name, height)
