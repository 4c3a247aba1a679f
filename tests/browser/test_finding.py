"""The search of the console: its button, its shortcuts, and what the browser remembers of a number."""

import re
from collections.abc import Callable

import pytest

from tests.browser.conftest import MadeToken
from tests.browser.pages import (
    Page,
    assert_accessible,
    assert_not_cut,
    assert_title_not_cut,
    expect,
    screenshots,
)

pytestmark = pytest.mark.once

FIND = "/admin/search/"


def look_at(page: Page, name: str) -> None:
    assert_accessible(page)
    assert_not_cut(page)
    assert_title_not_cut(page)
    screenshots(page, name)


@pytest.mark.parametrize("width", [1440, 1024, 390, 320])
def test_button_opens_the_search_on_every_width(admin_page: Page, width: int) -> None:
    admin_page.set_viewport_size({"width": width, "height": 800})
    admin_page.goto("/admin/accounts/creditentry/")
    button = admin_page.locator("#console-find")
    expect(button).to_be_in_viewport()
    expect(admin_page.get_by_role("link", name="Search", exact=True)).to_be_visible()
    button.click()
    expect(admin_page).to_have_url(FIND)
    expect(admin_page.get_by_label("Search the console")).to_be_focused()


@pytest.mark.parametrize("keys", ["Control+k", "Meta+k", "/"])
def test_shortcut_opens_the_search(admin_page: Page, keys: str) -> None:
    admin_page.goto("/admin/")
    admin_page.keyboard.press(keys)
    expect(admin_page).to_have_url(FIND)
    field = admin_page.get_by_label("Search the console")
    expect(field).to_be_focused()
    admin_page.get_by_role("button", name="Search").focus()
    admin_page.keyboard.press(keys)
    expect(field).to_be_focused()


def test_slash_is_typed_in_fields_and_can_be_turned_off(admin_page: Page) -> None:
    page = admin_page
    page.goto("/admin/accounts/apitoken/add/")
    page.get_by_label("Name").press("/")
    expect(page.get_by_label("Name")).to_have_value("/")
    page.goto(FIND)
    page.get_by_label("The / key opens it too").uncheck()
    page.goto("/admin/")
    page.keyboard.press("/")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    expect(page).to_have_url("/admin/")
    page.goto(FIND)
    expect(page.get_by_label("The / key opens it too")).not_to_be_checked()


def test_results_are_reached_with_the_keyboard(admin_page: Page, make_token: Callable[..., MadeToken]) -> None:
    page, token = admin_page, make_token(credits=3)
    page.goto(FIND)
    look_at(page, "find")
    page.keyboard.type("e")
    page.keyboard.press("Enter")
    expect(page.locator("#find-count")).to_be_focused()
    expect(page).to_have_title(re.compile(r"^\s*\d+( or more)? results \| Search"))
    look_at(page, "find-results")
    page.keyboard.press("Tab")
    expect(page.locator(".find-group a").first).to_be_focused()
    page.keyboard.press("/")
    page.keyboard.type(token.name)
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"/admin/accounts/apitoken/{token.id}/change/")
    page.goto(FIND)
    page.keyboard.type("no such thing")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="No results")).to_be_visible()
    look_at(page, "find-nothing")
    page.get_by_label("Search the console").fill(token.key[:60] + ".x." + "y" * 20)
    page.keyboard.press("Enter")
    expect(page.get_by_text("This is a whole token, which is secret.")).to_be_visible()
    look_at(page, "find-token")
