"""No URL that a browser requests contains a number, so that proxies cannot log any."""

import re

import pytest

from tests.browser.pages import Page, expect

pytestmark = pytest.mark.once

NUMBER, SHOWN = "493023125987", "+49 30 23125987"
# Any six digits of it in a row.
PART = re.compile("|".join(NUMBER[start : start + 6] for start in range(len(NUMBER) - 5)))


@pytest.mark.parametrize("kind", ["numberrule", "contact", "complaintday"])
def test_no_url_has_a_number_from_add_to_delete(admin_page: Page, kind: str) -> None:
    requested: list[str] = []
    admin_page.on("request", lambda request: requested.extend([request.url, request.headers.get("referer", "")]))

    def check_links() -> None:
        requested.extend(
            admin_page.eval_on_selector_all(
                "[href], [action], [src]", "all => all.flatMap(e => [e.href, e.action, e.src].map(String))"
            )
        )

    fields = {"source": "desk", "day": "2026-01-02", "total": "3"} if kind == "complaintday" else {"name": "Example"}
    admin_page.goto(f"/admin/phonebook/{kind}/add/")
    for name, value in {"number": "+49 30 23125-987", **fields}.items():
        admin_page.locator(f"[name={name}]").fill(value)
    admin_page.get_by_role("button", name="Save", exact=True).click()
    expect(admin_page.get_by_text("was added successfully")).to_be_visible()
    check_links()
    admin_page.locator("#searchbar").fill("+49 30 23125 987")
    admin_page.locator("#searchbar").press("Enter")
    expect(admin_page.locator("#searchbar")).to_have_value("+49 30 23125 987")
    check_links()
    admin_page.locator("#result_list").get_by_role("link", name=SHOWN).click()
    expect(admin_page.get_by_role("button", name="Save", exact=True)).to_be_visible()
    check_links()
    admin_page.get_by_role("link", name="History").last.click()
    expect(admin_page.get_by_text("Added.")).to_be_visible()
    check_links()
    admin_page.go_back()
    admin_page.get_by_role("button", name="Save", exact=True).click()
    expect(admin_page.get_by_text("was changed successfully")).to_be_visible()
    check_links()
    admin_page.locator("#result_list").get_by_role("link", name=SHOWN).click()
    admin_page.get_by_role("link", name="Delete").click()
    check_links()
    admin_page.get_by_role("button", name=re.compile("Yes")).click()
    expect(admin_page.get_by_text("was deleted successfully")).to_be_visible()
    admin_page.goto("/admin/admin/logentry/")
    expect(admin_page.get_by_text(NUMBER).first).to_be_visible()
    check_links()
    assert [address for address in requested if PART.search(address)] == []
    assert len(requested) > 50
