"""The pictures of the documentation: tests/browser/test_docs_images.py."""

from typing import Any

import pytest

from contrib.request_log.tests import URL
from tests.browser.pages import Page, expect, login
from tests.browser.test_docs_images import filled, page, take
from tests.service import Service

pytestmark = [pytest.mark.once, pytest.mark.slow]

__all__ = ["filled", "page"]


def test_pictures_of_the_pages(page: Page, filled: tuple[Service, dict[str, Any]]) -> None:
    _, made = filled
    login(page)
    for name, path, text, height in (
        ("console-requests", URL, "both sources matched", 860),
        ("console-request", f"{URL}{made['request']}/change/", "Source A: found", 700),
    ):
        page.goto(path)
        expect(page.get_by_role("main")).to_contain_text(text)
        take(page, name, height)
