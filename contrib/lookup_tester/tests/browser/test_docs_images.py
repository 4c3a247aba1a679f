"""The picture of the documentation: tests/browser/test_docs_images.py."""

import pytest

from tests.browser.pages import Page, expect, login
from tests.browser.test_docs_images import filled, page, take

pytestmark = [pytest.mark.once, pytest.mark.slow]

__all__ = ["filled", "page"]


def test_picture_of_a_tested_number(page: Page) -> None:
    login(page)
    page.goto("/admin/test-a-number/")
    page.get_by_label("Number", exact=True).fill("+49 30 23125555")
    page.get_by_role("button", name="Test", exact=True).click()
    expect(page.get_by_role("group", name="As a phone shows it")).to_contain_text("Spam")
    take(page, "console-test-a-number", 1120)
