"""The search of the console: its button, its shortcuts, and what the browser remembers of a number."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.conf import settings

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
FIELD = "Search pages, actions, customers, tokens and numbers"


def look_at(page: Page, name: str) -> None:
    assert_accessible(page)
    assert_not_cut(page)
    assert_title_not_cut(page)
    screenshots(page, name)


@pytest.mark.parametrize("width", [1440, 1024, 390, 320])
def test_button_opens_the_palette_on_every_width(admin_page: Page, width: int) -> None:
    admin_page.set_viewport_size({"width": width, "height": 800})
    admin_page.goto("/admin/accounts/creditentry/")
    button = admin_page.locator("#console-find")
    expect(button).to_be_in_viewport()
    expect(admin_page.get_by_role("link", name="Search", exact=True)).to_be_visible()
    button.click()
    expect(admin_page.get_by_role("combobox", name=FIELD)).to_be_focused()
    admin_page.get_by_role("button", name="Close", exact=True).click()
    expect(button).to_be_focused()


@pytest.mark.parametrize("keys", ["Control+k", "Meta+k", "/"])
def test_shortcut_opens_the_palette(admin_page: Page, keys: str) -> None:
    admin_page.goto("/admin/")
    dashboard = admin_page.get_by_role("link", name="Dashboard")
    dashboard.focus()
    admin_page.keyboard.press(keys)
    expect(admin_page.get_by_role("combobox", name=FIELD)).to_be_focused()
    admin_page.keyboard.press("Escape")
    expect(admin_page.get_by_role("dialog", name="Search")).to_be_hidden()
    expect(dashboard).to_be_focused()
    expect(admin_page).to_have_url("/admin/")


def test_slash_is_typed_in_fields_and_can_be_turned_off(admin_page: Page) -> None:
    page = admin_page
    page.goto("/admin/accounts/apitoken/add/")
    page.get_by_label("Name").press("/")
    expect(page.get_by_label("Name")).to_have_value("/")
    page.goto(FIND)
    page.get_by_label("The / key opens the search too").uncheck()
    page.goto("/admin/")
    page.keyboard.press("/")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.goto(FIND)
    expect(page.get_by_label("The / key opens the search too")).not_to_be_checked()


@pytest.mark.parametrize("width", [1440, 390])
def test_palette_finds_as_one_types_and_opens_by_keyboard(admin_page: Page, filled: dict[str, Any], width: int) -> None:
    page, requested = admin_page, list[str]()
    page.set_viewport_size({"width": width, "height": 844})
    page.on("request", lambda request: requested.append(request.url))
    page.goto("/admin/accounts/creditentry/")
    page.keyboard.press("Control+k")
    page.keyboard.type("token")
    palette = page.get_by_role("dialog", name="Search")
    field, options = palette.get_by_role("combobox", name=FIELD), palette.get_by_role("option")
    expect(options.first).to_have_attribute("aria-selected", "true")
    expect(field).to_have_attribute("aria-expanded", "true")
    page.keyboard.press("ArrowDown")
    expect(options.nth(1)).to_have_attribute("aria-selected", "true")
    expect(field).to_have_attribute("aria-activedescendant", "palette-option-1")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    expect(options.last).to_have_attribute("aria-selected", "true")
    look_at(page, f"palette-{width}")
    field.fill("2fa")
    expect(page.get_by_role("group", name="Actions").get_by_role("option")).to_have_count(1)
    expect(page.get_by_role("status").filter(has_text="1 result")).to_be_visible()
    page.keyboard.press("Enter")
    expect(page).to_have_url("/admin/second-factor/")
    assert not [url for url in requested if "2fa" in url]


@pytest.mark.skipif(
    not {"lookup_tester", "request_log"}.issubset(settings.ADDONS),
    reason="an add-on with a number's page is missing",
)
def test_palette_tests_a_number_by_keyboard(admin_page: Page) -> None:
    page, requested = admin_page, list[str]()
    page.on("request", lambda request: requested.append(request.url))
    page.goto("/admin/")
    page.keyboard.press("Control+k")
    expect(page.get_by_text("For example: a customer's name")).to_be_visible()
    look_at(page, "palette-empty")
    page.keyboard.type("+49 30 23125099")
    expect(page.get_by_text("For example: a customer's name")).to_be_hidden()
    expect(page.get_by_role("group", name="+49 30 23125099").get_by_role("option")).to_have_count(2)
    look_at(page, "palette-number")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page).to_have_url("/admin/test-a-number/")
    expect(page.get_by_role("region", name="Result")).to_be_visible()
    assert not [url for url in requested if "23125099" in url]


def test_palette_opens_a_touched_result(admin_page: Page, make_token: Callable[..., MadeToken]) -> None:
    token = make_token(credits=3)
    admin_page.set_viewport_size({"width": 390, "height": 844})
    admin_page.goto("/admin/")
    admin_page.locator("#console-find").click()
    admin_page.keyboard.type(token.name)
    option = admin_page.get_by_role("option", name=token.name)
    expect(option).to_be_visible()
    assert option.evaluate("element => element.getBoundingClientRect().height") >= 44
    option.click()
    expect(admin_page).to_have_url(f"/admin/accounts/apitoken/{token.id}/change/")


def test_results_of_an_earlier_text_are_not_shown(admin_page: Page) -> None:
    """The first request is answered after the second one."""
    page, held = admin_page, list[Any]()

    def answer(route: Any) -> None:
        if "q=ledger&" in route.request.post_data:
            held.append(route)
        else:
            route.continue_()

    page.route(f"**{FIND}", answer)
    page.goto("/admin/")
    page.keyboard.press("Control+k")
    field = page.get_by_role("combobox", name=FIELD)
    with page.expect_request(f"**{FIND}"):
        field.fill("ledger")
    field.fill("roles")
    expect(page.get_by_role("option", name="Roles")).to_be_visible()
    assert len(held) == 1
    held[0].abort()
    expect(page.get_by_role("option", name="Ledger")).to_have_count(0)


def test_palette_clears_a_whole_token(admin_page: Page, make_token: Callable[..., MadeToken]) -> None:
    token = make_token(credits=3)
    admin_page.goto("/admin/")
    admin_page.keyboard.press("Control+k")
    field = admin_page.get_by_role("combobox", name=FIELD)
    field.fill(token.key)
    expect(admin_page.get_by_text("This is a whole token, which is secret.")).to_be_visible()
    expect(field).to_have_value("")


def test_results_are_reached_with_the_keyboard(admin_page: Page, make_token: Callable[..., MadeToken]) -> None:
    page, token = admin_page, make_token(credits=3)
    page.goto(FIND)
    look_at(page, "find")
    page.keyboard.type("e")
    page.keyboard.press("Enter")
    expect(page.locator("#find-count")).to_be_focused()
    expect(page).to_have_title(re.compile(r"^\s*(At least )?\d+ results \| Search"))
    look_at(page, "find-results")
    page.keyboard.press("Tab")
    expect(page.locator(".find-group a").first).to_be_focused()
    page.get_by_label("Search the console").fill(token.name)
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
