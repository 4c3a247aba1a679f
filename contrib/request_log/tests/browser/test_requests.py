"""The filters of the request log in the browser: suggested customers, the browser's time zone; copying a request id."""

import re
from typing import Any

import pytest

from contrib.request_log.tests import URL as REQUESTS
from tests.browser.pages import Page, expect
from tests.browser.test_charges import suggested
from tests.service import Service

pytestmark = pytest.mark.once


def test_customer_is_suggested_by_a_part_of_the_name(admin_page: Page, filled: dict[str, Any]) -> None:
    page = admin_page
    page.goto(REQUESTS)
    page.get_by_role("combobox", name="Customer").press_sequentially("insur")
    option = suggested(page)
    expect(option).to_have_count(1)
    name = option.inner_text()
    assert name.startswith("Brightwater Insurance (#")
    option.click()
    page.get_by_role("button", name="Search").click()
    expect(page.get_by_label("Active filters")).to_contain_text(f"Only requests of tokens of {name}.")
    page.get_by_role("link", name=re.compile("Clear: Only requests")).click()
    expect(page.get_by_label("Active filters")).not_to_contain_text("Brightwater")


def test_times_can_be_in_the_browsers_zone(admin_page: Page, service: Service, filled: dict[str, Any]) -> None:
    browser = admin_page.context.browser
    assert browser is not None
    with browser.new_context(
        base_url=service.url,
        storage_state=admin_page.context.storage_state(),
        timezone_id="Asia/Tokyo",
    ) as context:
        page = context.new_page()
        admin_page.goto(REQUESTS)
        page.goto(f"{admin_page.url}?since=2026-01-01")
        before = page.get_by_label("From (UTC)").input_value()
        page.get_by_label("Time zone").select_option("Asia/Tokyo")
        after = page.get_by_label("From (Asia/Tokyo)").input_value()
        minutes = page.evaluate("([a, b]) => (new Date(b + 'Z') - new Date(a + 'Z')) / 60000", [before, after])
        assert minutes == 9 * 60
        page.get_by_role("button", name="Search").click()
        expect(page.locator("#result_list .column-when")).to_have_text("Time (Asia/Tokyo)")
        page.get_by_label("Time zone").select_option("UTC")
        assert page.get_by_label("From (UTC)").input_value() == before


def test_request_id_is_copied_whole(admin_page: Page, service: Service, filled: dict[str, Any]) -> None:
    page = admin_page
    page.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=service.url)
    page.goto(REQUESTS)
    button = page.get_by_role("button", name="Copy request id").first
    request_id = button.get_attribute("title")
    assert request_id is not None
    button.click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    assert page.evaluate("navigator.clipboard.readText()") == request_id
    assert "…" not in request_id
