import pytest

from tests.browser.pages import Page, expect, screenshots

pytestmark = pytest.mark.once


def test_docs_show_the_search_without_browser_errors(page: Page) -> None:
    page.goto("/docs")
    expect(page.get_by_text("/callerid/search", exact=True)).to_be_visible()
    expect(page.get_by_role("heading", name="Caller ID")).to_be_visible()
    screenshots(page, "docs")
