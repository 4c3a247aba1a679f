"""Customers that are suggested in the browser, and columns of figures."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.browser.pages import SETTLED, Page, assert_accessible, assert_not_cut, expect, screenshots

pytestmark = pytest.mark.once


def suggested(page: Page) -> Any:
    return page.get_by_role("listbox", name="Customers").get_by_role("option")


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


@pytest.mark.parametrize("url", ["accounts/apitoken/add/", "accounts/creditentry/"])
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
