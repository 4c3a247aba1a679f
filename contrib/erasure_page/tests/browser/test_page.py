"""The page "Erase a number's data" in a browser: preview, confirmation, report, and no number in a URL."""

from collections.abc import Callable

import pytest

from tests.browser.pages import Page, assert_accessible, assert_not_cut, expect, screenshots
from tests.browser.test_forms import end_session, log_in_again
from tests.service import Service

pytestmark = pytest.mark.once

NUMBER = "12125550147"


def test_number_is_erased_after_the_preview(admin_page: Page, command: Callable[..., str]) -> None:
    command("set_rule", NUMBER, "--spam", "yes")
    requested: list[str] = []
    admin_page.on("request", lambda request: requested.extend([request.url, request.headers.get("referer", "")]))
    admin_page.goto("/admin/")
    admin_page.get_by_role("link", name="Erase a number's data").first.click()
    admin_page.get_by_label("Number", exact=True).fill("+1 (212) 555-0147")
    admin_page.get_by_role("button", name="Show what is stored").click()
    row = admin_page.get_by_role("row", name="Rules for exactly this number")
    expect(row.get_by_role("cell", name="1", exact=True)).to_be_visible()
    assert_accessible(admin_page)
    assert_not_cut(admin_page)
    screenshots(admin_page, "erasure-preview")
    admin_page.get_by_role("button", name="Erase", exact=True).click()
    expect(admin_page.get_by_text("Tick the box to confirm.")).to_be_visible()
    admin_page.get_by_label("No: imports skip it").check()
    admin_page.get_by_label("Reference of the request").fill("letter of 3 March")
    admin_page.get_by_label("I understand that this cannot be undone.").check()
    admin_page.get_by_role("button", name="Erase", exact=True).click()
    report = admin_page.get_by_label("Report", exact=True)
    expect(report).to_contain_text("Erased: 1********47 (US)")
    expect(report).to_contain_text("Rules for exactly this number: 1, deleted")
    assert_accessible(admin_page)
    assert_not_cut(admin_page)
    screenshots(admin_page, "erasure-report")
    assert [url for url in requested if NUMBER[-7:] in url] == []


@pytest.mark.parametrize("button", ["Show what is stored", "Erase"])
def test_ended_session_keeps_no_number_to_be_erased(admin_page: Page, service: Service, button: str) -> None:
    page = admin_page
    page.goto("/admin/erase-a-number/")
    page.get_by_label("Number", exact=True).fill("+1 (212) 555-0147")
    if button == "Erase":
        page.get_by_role("button", name="Show what is stored").click()
        page.get_by_label("Reference of the request").fill("letter of 3 March")
    end_session(page, service)
    page.get_by_role("button", name=button, exact=True).click()
    expect(page.locator("#session-ended")).to_contain_text("What you submitted was not saved.")
    assert page.evaluate("sessionStorage.length") == 0
    log_in_again(page)
    expect(page.get_by_label("Number", exact=True)).to_have_value("")
