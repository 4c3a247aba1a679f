"""Token actions in the browser: what is copied from the page shown once, and topping up several tokens."""

from collections.abc import Callable

import pytest

from tests.browser.conftest import Account, MadeToken
from tests.browser.pages import Page, assert_accessible, assert_not_cut, expect, screenshots
from tests.browser.test_tokens import TOKENS, search
from tests.service import Service

pytestmark = pytest.mark.once

MakeToken = Callable[..., MadeToken]


def open_action(page: Page, token: MadeToken, name: str) -> None:
    page.goto(f"{TOKENS}{token.id}/change/")
    page.get_by_role("link", name=name, exact=True).click()


def test_rotated_token_is_copied_from_the_page_shown_once(
    admin_page: Page, service: Service, make_token: MakeToken
) -> None:
    page, token = admin_page, make_token(credits=10)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=service.url)
    open_action(page, token, "Rotate")
    page.get_by_label("Old token keeps working for").select_option("60")
    page.get_by_label("Reason").fill("leaked")
    page.get_by_role("button", name="Rotate").click()
    expect(page.get_by_text("The previous token works until")).to_be_visible()
    assert_accessible(page)
    assert_not_cut(page)

    page.get_by_role("button", name="Copy token").click()
    expect(page.get_by_text("Copied").first).to_be_visible()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == page.locator("#api_key").inner_text()
    assert copied != token.key
    page.get_by_role("button", name="Copy command").click()
    command = page.locator("#curl").inner_text()
    assert copied in command
    assert f"{service.url}/callerid/search" in command
    for key in (copied, token.key):
        search(service, MadeToken(token.id, token.name, key))

    cookies = page.context.cookies()
    assert not any(copied in str(cookie) for cookie in cookies)
    page.get_by_role("link", name="I have copied it").click()
    expect(page.get_by_text("in grace")).to_be_visible()
    assert copied not in page.content()


def test_several_tokens_are_topped_up_at_once(
    admin_page: Page, service: Service, make_token: MakeToken, account: Account
) -> None:
    page, one, other = admin_page, make_token(credits=1), make_token(credits=2)
    page.goto(f"{TOKENS}?q=several+tokens")
    for token in (one, other):
        page.locator(f'input[name="_selected_action"][value="{token.id}"]').check()
    page.get_by_role("combobox", name="Action").select_option("top_up_selected")
    page.get_by_role("button", name="Run").or_(page.get_by_role("button", name="Go")).first.click()
    page.get_by_label("Amount").fill("5")
    page.get_by_label("Reason").fill("spring offer")
    screenshots(page, "bulk-top-up")
    assert_not_cut(page)
    assert_accessible(page)
    page.get_by_role("button", name="Top up").dblclick(no_wait_after=True)
    expect(
        page.get_by_text("Already recorded; nothing added.").or_(page.get_by_text("Added 5 credits"))
    ).to_be_visible()
    assert [account(token)["credits"] for token in (one, other)] == [6, 7]
