"""Token actions in the browser: what is copied from the page shown once, and topping up several tokens."""

import json
import re
from collections.abc import Callable

import pytest

from tests.browser.conftest import Account, MadeToken
from tests.browser.pages import Page, assert_accessible, assert_not_cut, expect, fill_in_top_up, restored, screenshots
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
    assert_accessible(page)
    screenshots(page, "token-rotate")
    page.get_by_role("radio", name="1 hour").check()
    page.get_by_label(re.compile("^Reason")).fill("leaked")
    page.get_by_role("button", name="Rotate").click()
    expect(page.get_by_text("The previous token works until").first).to_be_visible()
    assert_accessible(page)
    assert_not_cut(page)
    screenshots(page, "token-rotated")
    page.get_by_role("button", name="Copy message").click()
    message = page.evaluate("navigator.clipboard.readText()")
    assert message == page.locator("#notice").inner_text()
    assert page.locator("#api_key").inner_text() not in message

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
    page.get_by_role("link", name="I have made a copy").click()
    expect(page.get_by_text("active, previous token works")).to_be_visible()
    assert copied not in page.content()


def test_several_tokens_are_topped_up_at_once(
    admin_page: Page, service: Service, make_token: MakeToken, account: Account
) -> None:
    page, one, other = admin_page, make_token(credits=1), make_token(credits=2)
    fill_in_top_up(page, "several tokens", one.id, other.id)
    screenshots(page, "bulk-top-up")
    assert_not_cut(page)
    assert_accessible(page)
    page.get_by_role("button", name="Top up").dblclick(no_wait_after=True)
    expect(
        page.get_by_text("Already recorded when this page was submitted before; nothing added.").or_(
            page.get_by_text("Added 5 credits")
        )
    ).to_be_visible()
    assert [account(token)["credits"] for token in (one, other)] == [6, 7]


def test_bar_of_actions_leaves_the_last_row_visible(admin_page: Page, make_token: MakeToken) -> None:
    page, token = admin_page, make_token(credits=1)
    page.goto(f"{TOKENS}?q=%23{token.id}")
    page.locator(".action-select").check()
    with restored(page):
        for width in (1280, 390):
            page.set_viewport_size({"width": width, "height": 320})
            page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
            row = page.locator("#result_list tr.data-row").bounding_box()
            bar = page.locator("#changelist-actions").bounding_box()
            assert row is not None
            assert bar is not None
            assert row["y"] + row["height"] <= bar["y"], width


def test_credits_move_and_the_rest_when_the_token_is_revoked(
    admin_page: Page, service: Service, command: Callable[..., str], account: Account
) -> None:
    page = admin_page
    owner = "Bakery of the moved credits"
    command("create_customer", owner)
    made = [
        json.loads(command("create_token", name, "--credits", amount, "--customer", owner, "--json"))
        for name, amount in (("old till", "30"), ("new till", "5"))
    ]
    old, new = (MadeToken(row["id"], row["name"], row["api_key"]) for row in made)
    open_action(page, old, "Move credits")
    expect(page.get_by_label("Amount")).to_have_value("")
    page.get_by_label("Move to").select_option(label=f"new till (#{new.id}): 5 credits")
    page.get_by_label("Amount").fill("20")
    page.get_by_label(re.compile("^Reason")).fill("a new till")
    screenshots(page, "move-credits")
    assert_not_cut(page)
    assert_accessible(page)
    page.get_by_role("button", name="Move credits").dblclick(no_wait_after=True)
    expect(page.get_by_text("Moved 20 credits to").or_(page.get_by_text("Already recorded")).first).to_be_visible()
    expect(page.get_by_text(f"Transfer to #{new.id}")).to_be_visible()
    assert [account(token)["credits"] for token in (old, new)] == [10, 25]
    page.get_by_role("row", name=f"Transfer to #{new.id}").get_by_role("link").click()
    expect(page.get_by_role("link", name=f"new till (#{new.id})")).to_be_visible()
    screenshots(page, "transfer-entry")
    assert_not_cut(page)
    assert_accessible(page)

    open_action(page, old, "Revoke")
    page.get_by_label(re.compile("^Reason")).fill("thrown away")
    page.get_by_label("Move its credits to").select_option(value=str(new.id))
    page.get_by_label("I understand").check()
    screenshots(page, "revoke-and-move")
    assert_not_cut(page)
    assert_accessible(page)
    page.get_by_role("button", name="Revoke").click()
    expect(page.get_by_text("Moved 10 credits to").first).to_be_visible()
    screenshots(page, "revoked-token")
    assert [account(token)["credits"] for token in (old, new)] == [0, 35]
    assert search(service, new)["credits_remaining"] == 34


def test_credits_move_to_a_token_that_is_issued_for_it(
    admin_page: Page, command: Callable[..., str], account: Account
) -> None:
    page = admin_page
    command("create_customer", "Lone Ltd")
    made = json.loads(command("create_token", "lone", "--credits=30", "--customer=Lone Ltd", "--json"))
    open_action(page, MadeToken(made["id"], "lone", made["api_key"]), "Move credits")
    expect(page.get_by_text("has no other token that can get the credits.")).to_be_visible()
    assert_accessible(page)
    assert_not_cut(page)
    screenshots(page, "token-move-without-target")
    page.get_by_role("link", name=re.compile("Issue an API token for Lone Ltd")).click()
    page.get_by_label("Name", exact=True).fill("second")
    page.get_by_label(re.compile("^Reason")).fill("for the credits")
    page.get_by_role("button", name="Issue").click()
    page.get_by_role("link", name="I have made a copy").click()
    expect(page.get_by_label("Move to")).to_contain_text("second")
    page.get_by_label("Amount").fill("30")
    page.get_by_label(re.compile("^Reason")).fill("closed")
    page.get_by_role("button", name="Move credits").click()
    expect(page.get_by_text("Moved 30 credits to second")).to_be_visible()
    assert account(MadeToken(made["id"], "lone", ""))["credits"] == 0
