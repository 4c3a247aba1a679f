"""The home page's search form: result, errors, and no form in production."""

from collections.abc import Callable

import pytest

from tests import plugin
from tests.browser.conftest import MadeToken
from tests.browser.pages import Page, assert_accessible, assert_not_cut, expect, screenshots
from tests.browser.watch import Watch

MakeToken = Callable[..., MadeToken]
embedded_only = pytest.mark.skipif(plugin.production(), reason="the form is the embedded profile's")


def search(page: Page, token: str, number: str) -> None:
    page.goto("/")
    page.get_by_label("API token", exact=True).fill(token)
    page.get_by_label("Phone number").fill(number)
    page.get_by_role("button", name="Search").click()


@embedded_only
def test_spam_call_is_shown_on_the_phone_and_as_json(page: Page, make_token: MakeToken) -> None:
    token = make_token(credits=3)
    search(page, token.key, "+49 (30) 2312-5555")
    phone = page.locator("#phone")
    expect(phone).to_contain_text("Musterhaus Advisors")
    expect(phone).to_contain_text("Spam")
    expect(page.get_by_text('"phone_number": "493023125555"')).to_be_visible()
    expect(page.get_by_text("2 credits").first).to_be_visible()
    assert_accessible(page)
    assert_not_cut(page)
    screenshots(page, "home-spam")
    assert token.key not in page.url
    assert page.evaluate("[localStorage.length, sessionStorage.length, document.cookie]") == [0, 0, ""]


@embedded_only
def test_invalid_token_and_invalid_number_are_explained(page: Page, make_token: MakeToken, watch: Watch) -> None:
    watch.expect_status(401)
    watch.expect_status(400)
    problem = page.get_by_role("alert")
    search(page, "nonsense", "+49 30 23125555")
    expect(problem).to_contain_text("token")
    search(page, make_token(credits=3).key, "12")
    expect(problem).to_contain_text("digits")


@pytest.mark.skipif(not plugin.production(), reason="the embedded profile has a form")
def test_production_shows_the_curl_command_instead(page: Page) -> None:
    page.goto("/")
    expect(page.get_by_role("button", name="Search")).to_have_count(0)
    expect(page.get_by_text("/callerid/search").first).to_be_visible()
