"""The dashboard's first block in the browser: what it shows first, and what it loads later."""

import pytest

from tests.browser.pages import Page, expect

pytestmark = pytest.mark.once


def test_first_screen_shows_status_and_what_needs_attention(admin_page: Page) -> None:
    admin_page.set_viewport_size({"width": 1280, "height": 800})
    admin_page.goto("/admin/")
    for seen in (admin_page.locator("#status"), admin_page.get_by_role("heading", name="Needs attention")):
        box = seen.bounding_box()
        assert box is not None
        assert box["y"] + box["height"] <= 800


def test_figures_that_take_long_are_loaded_after_the_page(admin_page: Page) -> None:
    """Those of add-ons too."""
    admin_page.goto("/admin/")
    expect(admin_page.locator("div[data-later]")).to_contain_text("runs out", ignore_case=True)
    for figure in admin_page.locator("dd[data-later]").all():
        expect(figure).to_contain_text(".")
        expect(figure).not_to_contain_text("Could not be loaded")
