"""Pausing, resuming and checking a source in a browser."""

import pytest

from tests.browser.pages import Page, assert_accessible, assert_not_cut, expect
from tests.service import Service

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


def test_paused_source_is_resumed_from_the_dashboard(admin_page: Page, service: Service) -> None:
    service.manage("pause_source", "directory", "--reason", "Wrong names since the import of Monday")
    admin_page.set_viewport_size({"width": 320, "height": 800})
    admin_page.goto("/admin/")
    statement = admin_page.locator("p.attention", has_text="directory: paused by ")
    expect(statement).to_have_count(1)
    assert_accessible(admin_page)
    assert_not_cut(admin_page)
    statement.get_by_role("link", name="Resume directory").click()
    expect(admin_page.get_by_text("directory: paused by ")).to_be_visible()
    admin_page.get_by_role("button", name="Resume").click()
    expect(admin_page.get_by_text("Resumed directory.")).to_be_visible()
    admin_page.goto("/admin/")
    expect(statement).to_have_count(0)
