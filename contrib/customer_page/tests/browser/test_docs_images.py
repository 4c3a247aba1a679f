"""The picture of the documentation: tests/browser/test_docs_images.py."""

from typing import Any

import pytest

from contrib.customer_page.tests.browser.test_customer_page import page_of
from tests.browser.pages import Page, expect
from tests.browser.test_docs_images import filled, page, take
from tests.service import Service

pytestmark = [pytest.mark.once, pytest.mark.slow]

__all__ = ["filled", "page"]


def test_pictures_of_the_page(page: Page, filled: tuple[Service, dict[str, Any]]) -> None:
    service, made = filled
    page.goto(page_of(service, made["customer"]))
    expect(page.get_by_role("heading", name="Harbour Street Clinic")).to_be_visible()
    take(page, "customer-page", 1000)
