"""Issuing and topping up tokens: double clicks, reloads, and pages that were opened earlier."""

import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import requests

from tests.browser.conftest import Account, MadeToken
from tests.browser.pages import Page, assert_accessible, assert_not_cut, expect, screenshots
from tests.service import Service

if TYPE_CHECKING:
    from playwright.sync_api import Route

MakeToken = Callable[..., MadeToken]
TOKENS = "/admin/accounts/apitoken/"


def search(service: Service, token: MadeToken) -> Any:
    answer = requests.post(
        f"{service.url}/callerid/search", json={"api_key": token.key, "query": "493023125555"}, timeout=10
    )
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_issued_token_works_and_is_not_shown_again(
    admin_page: Page, service: Service, command: Callable[..., str]
) -> None:
    page = admin_page
    page.goto(f"{TOKENS}add/")
    page.get_by_label("Name").fill("front desk")
    page.get_by_label("Initial credits").fill("7")
    page.get_by_label(re.compile("^Reason")).fill("order 4711")
    screenshots(page, "token-issue")
    page.get_by_role("button", name="Issue").click()
    expect(page.get_by_text("Copy this token now.")).to_be_visible()
    shown = re.findall(r"[\w-]+\.[\w-]+\.[\w-]{20,}", page.locator("#api_key").inner_text())
    assert len(shown) == 1
    assert search(service, MadeToken(0, "front desk", shown[0]))["credits_remaining"] == 6

    page.reload()
    expect(page.get_by_text("This page has already issued token")).to_be_visible()
    assert shown[0] not in page.content()
    page.goto(TOKENS)
    page.get_by_role("link", name="front desk").click()
    expect(page.get_by_role("heading", name="front desk")).to_be_visible()
    assert shown[0] not in page.content()
    listed = json.loads(command("list_tokens", "--json"))
    assert [token["credits"] for token in listed if token["name"] == "front desk"] == [6]


def test_issued_test_token_has_a_badge_and_is_never_charged(admin_page: Page, service: Service) -> None:
    page = admin_page
    page.goto(f"{TOKENS}add/")
    page.get_by_label("Name").fill("sandbox of a client")
    page.get_by_label("Test token").check()
    page.get_by_label(re.compile("^Reason")).fill("order 4712")
    screenshots(page, "test-token-issue")
    page.get_by_role("button", name="Issue").click()
    expect(page.get_by_text("Copy this token now.")).to_be_visible()
    screenshots(page, "test-token-issued")
    (shown,) = re.findall(r"[\w-]+\.[\w-]+\.[\w-]{20,}", page.locator("#api_key").inner_text())
    for _ in range(2):
        answer = search(service, MadeToken(0, "sandbox of a client", shown))
        assert (answer["credits_remaining"], answer["data"]["source_a"]) == (1000, {})
    page.goto(f"{TOKENS}?mode=test")
    row = page.get_by_role("row").filter(has_text="sandbox of a client")
    expect(row.get_by_text("test", exact=True)).to_be_visible()
    screenshots(page, "test-tokens")
    page.get_by_role("link", name="sandbox of a client").click()
    expect(page.get_by_text("Never charged; returns fixed test results")).to_be_visible()
    expect(page.get_by_role("link", name="Top up")).to_have_count(0)


def fill_top_up(page: Page, token: MadeToken, amount: int) -> None:
    page.goto(f"{TOKENS}{token.id}/change/")
    page.get_by_role("link", name="Top up").click()
    page.get_by_label("Amount").fill(str(amount))
    page.get_by_label(re.compile("^Reason")).fill("invoice 17")


def test_double_click_tops_up_once(admin_page: Page, service: Service, make_token: MakeToken, account: Account) -> None:
    page, token = admin_page, make_token(credits=10)
    fill_top_up(page, token, 25)
    screenshots(page, "token-top-up")
    page.get_by_role("button", name="Top up").dblclick(no_wait_after=True)
    expect(page.get_by_text("ledger entry").first).to_be_visible()
    assert account(token)["credits"] == 35


def test_second_click_during_a_slow_response_tops_up_once(
    admin_page: Page, service: Service, make_token: MakeToken, account: Account
) -> None:
    """The browser drops the first request then, but the service has executed it."""
    page, token = admin_page, make_token(credits=10)
    fill_top_up(page, token, 25)
    sent: list[str | None] = []

    def first_without_an_answer(route: "Route") -> None:
        sent.append(route.request.post_data)
        if len(sent) > 1:
            route.continue_()

    page.route("**/top-up/", first_without_an_answer)
    box = page.get_by_role("button", name="Top up").bounding_box()
    assert box is not None
    middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    with page.expect_request("**/top-up/") as first:
        page.mouse.click(*middle)
    assert page.request.fetch(first.value, max_redirects=0).status == 302
    while len(sent) < 2:  # a busy browser may lose a click
        page.mouse.click(*middle)  # Playwright's own click would wait for the first one's page
        page.wait_for_timeout(1000)
    expect(page.get_by_text("Already recorded")).to_be_visible()
    assert len(set(sent)) == 1
    assert account(token)["credits"] == 35


def test_same_credits_are_not_added_again_after_back(admin_page: Page, make_token: MakeToken, account: Account) -> None:
    page, token = admin_page, make_token(credits=10)
    fill_top_up(page, token, 1000)
    page.get_by_role("button", name="Top up").click()
    expect(page.get_by_text("ledger entry").first).to_be_visible()
    page.go_back()
    page.get_by_label("Amount").fill("1000")
    page.get_by_label(re.compile("^Reason")).fill("invoice 17")
    page.get_by_role("button", name="Top up").click()
    expect(page.get_by_text(re.compile("1,000 credits with this reason were added .* ago by admin"))).to_be_visible()
    box = page.get_by_role("checkbox", name="Add them again")
    expect(box).not_to_be_checked()
    expect(page.get_by_label("Amount")).to_have_value("1000")
    expect(page.get_by_label(re.compile("^Reason"))).to_have_value("invoice 17")
    assert_accessible(page)
    assert_not_cut(page)
    screenshots(page, "token-top-up-again")
    assert account(token)["credits"] == 1010
    box.check()
    page.get_by_role("button", name="Top up").click()
    expect(page.get_by_text("ledger entry").first).to_be_visible()
    assert account(token)["credits"] == 2010
