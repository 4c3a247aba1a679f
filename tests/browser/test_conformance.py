"""Pages outside the console, and those before the login: WCAG 2.2 AA as far as a browser can measure it.

test_pages.py does the same with each page of the console.
"""

import pytest

from tests.browser.conformance import (
    assert_conforms,
    control_contrast,
    keyboard,
    reflow,
    structure,
    text_spacing,
)
from tests.browser.pages import Page, expect
from tests.browser.watch import Watch

pytestmark = pytest.mark.once


@pytest.mark.parametrize("path", ["/", "/docs", "/admin/login/"])
def test_public_page_conforms(page: Page, path: str) -> None:
    page.goto(path)
    if path == "/docs":
        expect(page.get_by_text("/callerid/search", exact=True)).to_be_visible()
    assert_conforms(page)


def test_page_that_does_not_exist_conforms(admin_page: Page, watch: Watch) -> None:
    watch.expect_status(404)
    admin_page.goto("/admin/no/such/page/")
    expect(admin_page.get_by_role("heading", name="Page not found")).to_be_visible()
    assert_conforms(admin_page)


def test_measures_find_what_they_are_for(admin_page: Page) -> None:
    """Each one, on a page with one mistake of its kind."""
    admin_page.goto("/admin/password_change/")
    admin_page.evaluate(
        """() => {
            document.querySelector("#content").insertAdjacentHTML("beforeend", `<h1>Two</h1>
                <div style="width: 700px">wide</div>
                <a href="#">a link</a>
                <p style="height: 15px; overflow: hidden; white-space: nowrap; width: 40px">cut off text</p>
                <div style="position: fixed; inset: auto 0 0 0; height: 300px; background: #fff; z-index: 99"></div>`);
            document.querySelector("input[name=old_password]").style.borderColor = "#eee";
            document.title = "";
        }"""
    )
    assert structure(admin_page) == ["no title", "2 h1"]
    assert any("old_password" in problem for problem in control_contrast(admin_page))
    assert any("cut off text" in problem for problem in text_spacing(admin_page))
    assert any("is covered or out of view" in problem for problem in keyboard(admin_page))
    assert any("zoom of 400 %" in problem for problem in reflow(admin_page))
