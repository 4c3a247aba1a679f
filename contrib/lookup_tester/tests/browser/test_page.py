"""The page "Test a number" in a browser: the phone, the JSON, and no number in a URL."""

from collections.abc import Callable

import pytest

from tests.browser.pages import Page, assert_accessible, assert_not_cut, expect, screenshots

pytestmark = pytest.mark.once

URL = "/admin/test-a-number/"
NUMBER, SHOWN = "12125550142", "+1 212 555 0142"


@pytest.mark.parametrize("spam", ["yes", "no", "unknown"])
def test_result_is_drawn_as_a_phone(admin_page: Page, command: Callable[..., str], spam: str) -> None:
    name = "Example Bakery and Coffee House of Springfield"
    command("set_rule", NUMBER, "--spam", spam, "--name", name)
    requested: list[str] = []
    admin_page.on("request", lambda request: requested.extend([request.url, request.headers.get("referer", "")]))
    admin_page.goto(URL)
    admin_page.get_by_label("Number", exact=True).fill("+1 (212) 555-0142")
    admin_page.get_by_role("button", name="Test", exact=True).dblclick()
    phone = admin_page.get_by_role("group", name="As a phone shows it")
    title = {"yes": "Spam", "no": "Not spam", "unknown": "No spam information"}[spam]
    for text in (name, SHOWN, title):
        expect(phone.get_by_text(text, exact=True).first).to_be_visible()
    data = admin_page.get_by_label("Response as JSON")
    expect(data).to_contain_text(f'"phone_number": "{NUMBER}"')
    assert_accessible(admin_page)
    assert_not_cut(admin_page)
    screenshots(admin_page, f"tested-{spam}")
    admin_page.get_by_role("link", name="Open the rule").click()
    expect(admin_page.get_by_role("button", name="Save", exact=True)).to_be_visible()
    admin_page.go_back()
    assert [url for url in requested if NUMBER[-7:] in url] == []
