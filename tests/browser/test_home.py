"""Trying it: what a phone would show, and what is said when it goes wrong."""

from collections.abc import Callable

import pytest

from tests import plugin
from tests.browser.conftest import MadeToken
from tests.browser.pages import Page, assert_accessible, assert_not_cut, expect, screenshots
from tests.browser.watch import Watch

MakeToken = Callable[..., MadeToken]
tried = pytest.mark.skipif(plugin.production(), reason="the form is the embedded profile's")


def ask(page: Page, token: str, number: str) -> None:
    page.goto("/")
    page.get_by_label("Token", exact=True).fill(token)
    page.get_by_label("Phone number").fill(number)
    page.get_by_role("button", name="Ask who is calling").click()


@tried
def test_a_spammer_is_drawn_as_a_phone_would_and_as_json(page: Page, make_token: MakeToken) -> None:
    token = make_token(credits=3)
    ask(page, token.key, "+49 (30) 2312-5555")
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


@tried
def test_a_wrong_token_and_a_wrong_number_are_said_in_sentences(
    page: Page, make_token: MakeToken, watch: Watch
) -> None:
    watch.expect_status(401)
    watch.expect_status(400)
    problem = page.get_by_role("alert")
    ask(page, "nonsense", "+49 30 23125555")
    expect(problem).to_contain_text("token")
    ask(page, make_token(credits=3).key, "12")
    expect(problem).to_contain_text("digits")


@pytest.mark.skipif(not plugin.production(), reason="the embedded profile has a form")
def test_in_production_it_shows_the_command_instead(page: Page) -> None:
    page.goto("/")
    expect(page.get_by_role("button", name="Ask who is calling")).to_have_count(0)
    expect(page.get_by_text("/callerid/search").first).to_be_visible()
