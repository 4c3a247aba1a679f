"""Pausing, resuming and checking a source in a browser."""

import pytest

from tests.browser.pages import Page, expect

pytestmark = pytest.mark.once

URL = "/admin/monitoring/source/directory/change/"


def test_source_is_paused_and_resumed(admin_page: Page) -> None:
    admin_page.goto("/admin/monitoring/source/")
    admin_page.get_by_role("link", name="directory").first.click()
    admin_page.get_by_role("link", name="Pause").click()
    admin_page.get_by_label("Reason").fill("The contacts are being replaced")
    admin_page.get_by_role("button", name="Pause").click()
    expect(admin_page.get_by_text("Paused directory.")).to_be_visible()
    expect(admin_page.get_by_text("The contacts are being replaced").first).to_be_visible()
    admin_page.goto("/admin/")
    expect(admin_page.get_by_text("Paused by an operator: directory")).to_be_visible()
    admin_page.goto(URL)
    admin_page.get_by_role("link", name="Resume").click()
    admin_page.get_by_role("button", name="Resume").click()
    expect(admin_page.get_by_text("Resumed directory.")).to_be_visible()


def test_double_click_checks_once(admin_page: Page) -> None:
    checks: list[str] = []
    admin_page.on("request", lambda each: checks.append(each.url) if each.url.endswith("/check-now/") else None)
    admin_page.goto(URL)
    admin_page.get_by_role("link", name="Check now").click()
    checks.clear()
    admin_page.get_by_role("button", name="Check now").dblclick()
    expect(admin_page.get_by_text("Checked by one call: not found.")).to_be_visible()
    expect(admin_page.get_by_role("region", name="Last check")).to_be_visible()
    assert len(checks) == 1
