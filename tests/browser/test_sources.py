"""Pausing, resuming and checking a source in a browser."""

import pytest

from tests.browser.pages import Page, expect

pytestmark = pytest.mark.once

URL = "/admin/monitoring/source/directory/change/"


def test_double_click_checks_once(admin_page: Page) -> None:
    checks: list[str] = []
    admin_page.on("request", lambda each: checks.append(each.url) if each.url.endswith("/check-now/") else None)
    admin_page.goto(URL)
    admin_page.get_by_role("link", name="Check now").click()
    checks.clear()
    admin_page.get_by_role("button", name="Check now").dblclick()
    expect(admin_page.get_by_text("The check succeeded: not found, in").first).to_be_visible()
    expect(admin_page.locator("#check").get_by_text("The check succeeded")).to_be_visible()
    assert len(checks) == 1
