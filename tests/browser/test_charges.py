"""The filters of the request log in the browser: suggested customers, the browser's time zone; copying a request id."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.browser.pages import SETTLED, Page, assert_accessible, assert_not_cut, expect, screenshots
from tests.service import Service

pytestmark = pytest.mark.once

REQUESTS = "/admin/monitoring/requestlogentry/"


def suggested(page: Page) -> Any:
    return page.get_by_role("listbox", name="Customers").get_by_role("option")


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


def test_customer_is_created_while_a_token_is_issued(admin_page: Page) -> None:
    page = admin_page
    page.goto("/admin/accounts/apitoken/add/")
    page.get_by_label("Name", exact=True).fill("new token")
    page.keyboard.press("Tab")
    field, offered = page.get_by_role("combobox", name="Customer"), suggested(page)
    expect(field).to_be_focused()
    page.keyboard.type("Created Ltd")
    expect(offered).to_have_text(['Create "Created Ltd"'])
    expect(field).to_have_attribute("aria-expanded", "true")
    page.keyboard.press("Escape")
    expect(offered).to_have_count(0)
    page.keyboard.press("ArrowDown")
    expect(offered).to_have_count(1)
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("option", selected=True)).to_have_text('Create "Created Ltd"')
    assert_accessible(page)
    assert_not_cut(page)
    screenshots(page, "customer-field")
    page.keyboard.press("Enter")
    expect(field).to_have_value("Created Ltd")
    expect(page.get_by_text("New customer", exact=True)).to_be_visible()
    field.fill("Created Ltd")
    expect(page.get_by_text("New customer", exact=True)).to_have_count(0)
    page.keyboard.press("Enter")  # submits the form, before the field is left
    expect(page.get_by_text("There is no customer with this name.")).to_be_visible()
    assert_accessible(page)
    expect(page.get_by_role("checkbox", name='Create "Created Ltd"')).not_to_be_checked()
    field.fill("Another Ltd")
    expect(page.get_by_role("checkbox", name='Create "Created Ltd"')).to_have_count(0)
    page.get_by_label(re.compile("^Reason")).fill("order")
    expect(page.get_by_text("New customer", exact=True)).to_be_visible()
    expect(field).to_have_value("Another Ltd")
    page.get_by_role("button", name="Issue").click()
    expect(page.get_by_text("Copy this token now.")).to_be_visible()


@pytest.mark.parametrize("url", ["accounts/apitoken/add/", "accounts/creditentry/", "monitoring/requestlogentry/"])
def test_part_of_a_name_finds_the_customer(
    admin_page: Page, command: Callable[..., str], filled: dict[str, Any], url: str
) -> None:
    page, name = admin_page, f"Pier of {url.split('/')[1]}"
    command("create_customer", name)
    page.set_viewport_size({"width": 390, "height": 900})
    page.goto(f"/admin/{url}")
    field = page.get_by_role("combobox", name="Customer")
    for choose_by in ("click", "keys"):
        field.fill(name.upper()[:-3])
        option = suggested(page).filter(has_text=name)
        expect(option).to_be_visible()
        if choose_by == "click":
            option.click()
        else:
            page.keyboard.press("ArrowUp")
            page.keyboard.press("ArrowDown")
            page.keyboard.press("Enter")
        expect(field).to_have_value(re.compile(rf"{name} \(#\d+\)"))
        expect(suggested(page)).to_have_count(0)


@pytest.mark.parametrize(
    ("url", "columns"),
    [
        ("accounts/creditentry/", ["signed_amount", "balance"]),
        ("accounts/apitoken/", ["balance", "searches"]),
        ("accounts/customer/", ["token_count", "balance", "searches"]),
        ("phonebook/complaintday/", ["total", "robocalls"]),
    ],
)
def test_numbers_align_right_under_headings_that_stay(
    admin_page: Page, filled: dict[str, Any], url: str, columns: list[str]
) -> None:
    page = admin_page
    # The names of other tests' tokens and customers make a table too wide for a smaller window.
    page.set_viewport_size({"width": 2400, "height": 400})
    page.goto(f"/admin/{url}")
    page.evaluate(SETTLED)
    for name in columns:
        assert page.locator(f".field-{name}").first.evaluate("e => getComputedStyle(e).textAlign") == "right", name
        assert page.locator(f".column-{name} > div").evaluate("e => getComputedStyle(e).justifyContent") == "flex-end"
    page.evaluate("scrollTo(0, document.querySelector('#result_list tbody').getBoundingClientRect().top + 20)")
    page.evaluate(SETTLED)
    heading = page.locator("#result_list thead th").nth(1).bounding_box()
    assert heading is not None
    assert heading["y"] >= 0
