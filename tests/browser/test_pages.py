"""Every page of the console, the home page and the API docs: accessible, not cut, no browser errors."""

import re
from typing import Any

import pytest

from tests.browser.conformance import assert_conforms
from tests.browser.pages import (
    SCHEMES,
    Page,
    assert_accessible,
    assert_not_cut,
    assert_title_not_cut,
    expect,
    screenshots,
    set_scheme,
)
from tests.plugin import of_addons

pytestmark = pytest.mark.once

PAGES = {
    "dashboard": "/admin/",
    "dashboard-30-days": "/admin/?period=30d",
    "tokens": "/admin/accounts/apitoken/",
    "token": "/admin/accounts/apitoken/{token}/change/",
    "test-token": "/admin/accounts/apitoken/{test_token}/change/",
    "token-edit": "/admin/accounts/apitoken/{token}/edit/",
    "issue": "/admin/accounts/apitoken/add/",
    "top-up": "/admin/accounts/apitoken/{token}/top-up/",
    "adjust": "/admin/accounts/apitoken/{token}/adjust/",
    "rotate": "/admin/accounts/apitoken/{token}/rotate/",
    "revoke": "/admin/accounts/apitoken/{token}/revoke/",
    "customers": "/admin/accounts/customer/",
    "customer": "/admin/accounts/customer/{customer}/change/",
    "customer-edit": "/admin/accounts/customer/{customer}/edit/",
    "customer-top-up": "/admin/accounts/customer/{customer}/top-up/",
    "customer-add": "/admin/accounts/customer/add/",
    "customer-ledger": "/admin/accounts/creditentry/?customer={customer}&since=2000-01-01",
    "ledger": "/admin/accounts/creditentry/",
    "ledger-row": "/admin/accounts/creditentry/{search}/change/",
    "refund": "/admin/accounts/creditentry/{other}/refund/",
    "sources": "/admin/monitoring/source/",
    "source": "/admin/monitoring/source/complaints/change/",
    "source-7-days": "/admin/monitoring/source/complaints/change/?period=7d",
    "source-paused": "/admin/monitoring/source/geography/change/",
    "source-pause": "/admin/monitoring/source/directory/pause/",
    "source-check": "/admin/monitoring/source/directory/check-now/",
    "source-resume": "/admin/monitoring/source/geography/resume/",
    "rules": "/admin/phonebook/numberrule/",
    "rule-add": "/admin/phonebook/numberrule/add/",
    "contacts": "/admin/phonebook/contact/",
    "contact-add": "/admin/phonebook/contact/add/",
    "complaints": "/admin/phonebook/complaintday/",
    "complaint-add": "/admin/phonebook/complaintday/add/",
    "users": "/admin/auth/user/",
    "user-add": "/admin/auth/user/add/",
    "roles": "/admin/auth/group/",
    "role": "/admin/auth/group/1/change/",
    "history": "/admin/admin/logentry/",
    "password": "/admin/password_change/",
    "invite": "/admin/auth/user/invite/",
    **of_addons("CONSOLE_PAGES"),
}


@pytest.mark.parametrize("name", PAGES)
def test_console_page_is_accessible_and_not_cut(admin_page: Page, filled: dict[str, Any], name: str) -> None:
    admin_page.goto(PAGES[name].format(**filled))
    expect(admin_page.get_by_role("link", name="Dashboard")).to_be_attached()
    expect(admin_page.get_by_role("main")).to_be_visible()
    expect(admin_page.locator(".material-symbols-outlined:not([aria-hidden])")).to_have_count(0)
    assert_not_cut(admin_page)
    assert_title_not_cut(admin_page)
    assert_conforms(admin_page)
    screenshots(admin_page, name)


def test_chart_has_the_pages_text_color_in_every_scheme(admin_page: Page, filled: dict[str, Any]) -> None:
    labels = """() => {
        const chart = Object.values(Chart.instances)[0];
        return chart && Object.values(chart.scales).map(scale => scale.options.ticks.color);
    }"""
    colours = set()
    for scheme in SCHEMES:
        admin_page.emulate_media(color_scheme=scheme)
        admin_page.goto(PAGES["dashboard"])
        for shown in (scheme, *(other for other in SCHEMES if other != scheme)):
            set_scheme(admin_page, shown)
            text = admin_page.evaluate("getComputedStyle(document.body).color")
            colours.add(text)
            admin_page.wait_for_function(f"text => ({labels})()?.every(colour => colour === text)", arg=text)
    assert len(colours) == 2


LISTS = (
    "tokens",
    "customers",
    "ledger",
    "rules",
    "contacts",
    "complaints",
    "users",
    "roles",
    "history",
    *of_addons("LISTS"),
)


@pytest.mark.parametrize("name", LISTS)
def test_page_of_twenty_rows_on_a_phone_has_at_most_3000_pixels(
    admin_page: Page, filled: dict[str, Any], name: str
) -> None:
    """What is above the first row, and 20 rows of the average height."""
    admin_page.set_viewport_size({"width": 390, "height": 900})
    admin_page.goto(PAGES[name])
    expect(admin_page.locator("#result_list tr.data-row").first).to_be_visible()
    height = admin_page.evaluate(
        """() => {
            const rows = [...document.querySelectorAll("#result_list tr.data-row")];
            const top = rows[0].getBoundingClientRect().top + scrollY;
            const last = rows.at(-1), style = getComputedStyle(last);
            const bottom = last.getBoundingClientRect().bottom + parseFloat(style.marginBottom) + scrollY;
            return top + 20 * (bottom - top) / rows.length;
        }"""
    )
    assert height <= 3000


def test_wide_tables_are_cards_on_phones_and_failures_come_first(admin_page: Page, filled: dict[str, Any]) -> None:
    admin_page.set_viewport_size({"width": 390, "height": 900})
    admin_page.goto(PAGES["sources"])
    boxes = admin_page.locator(".figures-scroll")
    expect(boxes.first).to_be_visible()
    assert not any(box.evaluate("e => e.scrollWidth > e.clientWidth") for box in boxes.all())
    row = boxes.first.locator("tbody tr").first
    tops = {name: row.locator(f'[data-label="{name}"]').bounding_box() for name in ("Source", "Failed", "Found")}
    places = {name: (box["y"], box["x"]) for name, box in tops.items() if box}
    assert places["Source"] < places["Failed"] < places["Found"]
    admin_page.set_viewport_size({"width": 1280, "height": 900})
    expect(boxes.first.get_by_role("columnheader", name="Failed")).to_be_visible()


def test_api_docs_have_the_products_colors_and_link_back(page: Page) -> None:
    for scheme, colour in (("light", "rgb(248, 250, 252)"), ("dark", "rgb(11, 17, 32)")):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        page.goto("/docs")
        expect(page.locator("body")).to_have_css("background-color", colour)
        expect(page.locator(".opblock-summary-method").first).to_have_css("background-color", "rgb(79, 70, 229)")
    page.get_by_role("link", name="Caller ID", exact=True).click()
    expect(page).to_have_url(re.compile("/$"))


def test_ledgers_filters_are_closed_on_phones_until_used(admin_page: Page, filled: dict[str, Any]) -> None:
    admin_page.goto(PAGES["ledger"])
    expect(admin_page.get_by_label("Kind", exact=True)).to_be_visible()
    admin_page.set_viewport_size({"width": 390, "height": 900})
    admin_page.goto(PAGES["ledger"])
    expect(admin_page.get_by_label("Kind", exact=True)).to_be_hidden()
    admin_page.get_by_text("Kind and time").press("Enter")
    admin_page.get_by_label("Kind", exact=True).select_option("Search")
    admin_page.get_by_role("button", name="Search").click()
    expect(admin_page).to_have_url(re.compile("kind=search"))
    expect(admin_page.get_by_label("Kind", exact=True)).to_be_visible()


def test_menu_opens_and_closes_with_the_keyboard(admin_page: Page) -> None:
    admin_page.set_viewport_size({"width": 390, "height": 900})
    admin_page.goto("/admin/")
    opener, item = (
        admin_page.get_by_role("button", name="Menu", exact=True),
        admin_page.get_by_role("link", name="Ledger"),
    )
    expect(item).to_be_hidden()
    opener.press("Enter")
    expect(item).to_be_visible()
    expect(opener).to_have_attribute("aria-expanded", "true")
    expect(admin_page.get_by_role("button", name="Close menu")).to_be_focused()
    screenshots(admin_page, "menu")
    admin_page.keyboard.press("Escape")
    expect(item).to_be_hidden()
    expect(opener).to_be_focused()


def test_yes_and_no_in_a_list_have_a_name(admin_page: Page, filled: dict[str, Any]) -> None:
    admin_page.goto(PAGES["alert-recipients"])
    expect(admin_page.locator("#result_list").get_by_role("img", name="True").first).to_be_visible()


def test_first_tab_stop_skips_the_menu(admin_page: Page) -> None:
    admin_page.goto("/admin/accounts/apitoken/")
    admin_page.keyboard.press("Tab")
    expect(admin_page.get_by_role("link", name="Skip to content")).to_be_focused()
    admin_page.keyboard.press("Enter")
    expect(admin_page.locator("#content")).to_be_focused()


@pytest.mark.parametrize(
    ("path", "button"),
    [("/admin/accounts/apitoken/add/", "Issue"), ("/admin/phonebook/numberrule/add/", "Save")],
)
def test_form_error_moves_the_focus_and_is_in_the_title(admin_page: Page, path: str, button: str) -> None:
    admin_page.goto(path)
    admin_page.get_by_role("button", name=button, exact=True).click()
    expect(admin_page.locator("[aria-invalid][autofocus]").first).to_be_focused()
    expect(admin_page).to_have_title(re.compile("^Error: "))
    assert_accessible(admin_page)


def test_save_and_delete_cover_nothing(admin_page: Page, filled: dict[str, Any]) -> None:
    admin_page.set_viewport_size({"width": 1280, "height": 400})
    for name in ("customer-edit", "token-edit", "rule-add", "contact-add"):
        admin_page.goto(PAGES[name].format(**filled))
        bar, height = admin_page.locator("#submit-row"), admin_page.evaluate("innerHeight")
        assert bar.evaluate("e => getComputedStyle(e).position") == "static", name
        assert bar.evaluate("e => e.getBoundingClientRect().bottom") > height, name
    for name in ("customer", "token"):
        admin_page.goto(PAGES[name].format(**filled))
        expect(admin_page.locator("#submit-row")).to_have_count(0)
        admin_page.get_by_role("link", name="Edit", exact=True).click()
        expect(admin_page.get_by_role("button", name="Save", exact=True)).to_be_attached()


def test_page_follows_the_systems_color_scheme(admin_page: Page, page: Page) -> None:
    for shown, address in ((admin_page, "/admin/"), (page, "/"), (page, "/docs")):
        brightness = {}
        for scheme in ("light", "dark"):
            shown.emulate_media(color_scheme=scheme)
            shown.goto(address)
            colour = shown.evaluate("getComputedStyle(document.body).backgroundColor")
            pixel = shown.evaluate(
                """colour => {
                    const canvas = document.createElement("canvas").getContext("2d");
                    canvas.fillStyle = colour;
                    canvas.fillRect(0, 0, 1, 1);
                    return [...canvas.getImageData(0, 0, 1, 1).data];
                }""",
                colour,
            )
            brightness[scheme] = sum(pixel[:3]) / 3
        assert brightness["dark"] < 80 < 200 < brightness["light"], (address, brightness)
