"""Long texts without a space, notes of many lines, and amounts, in the browser."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from tests.browser.conftest import MadeToken
from tests.browser.pages import Page, assert_accessible, assert_not_cut, expect
from tests.plugin import of_addons
from tests.service import Service

pytestmark = pytest.mark.once

WORD = "Donaudampfschifffahrt" * 10
NAME, TEXT = WORD[:100], WORD[:200]
#: With the longest names, notes and reasons of each kind.
_FILL = f"""
import json
from django.utils import timezone
from accounts import credits, customers, tokens
from accounts.models import ApiToken, Customer
from core import history
from lookup.models import SourcePause
from phonebook.models import Contact, NumberRule
from tests.plugin import of_addons
name, text, now = {NAME!r}, {TEXT!r}, timezone.now()
customer = customers.create(name=name)
Customer.objects.filter(pk=customer.pk).update(note=text * 3)
customer.contacts.create(name=name, email="a" * 60 + "@" + "b" * 60 + ".example")
token = tokens.issue(name=name, initial_credits=9, actor="op", customer=customer).token
ApiToken.objects.filter(pk=token.pk).update(note=text * 3)
credits.top_up(token=token, amount=1, actor="op", reason=text, reference=name)
closed = tokens.issue(name=name[1:], initial_credits=0, actor="op").token
ApiToken.objects.filter(pk=closed.pk).update(revoked_at=now, revoked_reason=text)
rule = NumberRule.objects.create(number=12125550177, name=text, note=text)
contact = Contact.objects.create(number=12125550178, name=text, location=text)
history.record(action=history.Action.CHANGE, target=token, message=text * 3)
made = {{
    "customer": customer, "token": token, "closed": closed, "rule": rule, "contact": contact,
    "entry": token.entries.get(kind="top-up"),
}}
for add in of_addons("LONG_TEXTS").values():
    made |= add(token, text, now)
print(json.dumps({{name: row.pk for name, row in made.items()}}))
"""
PAGES = (
    "/admin/",
    *("/admin/accounts/apitoken/", "/admin/accounts/customer/", "/admin/accounts/creditentry/"),
    "/admin/accounts/creditentry/?token=%23{token}",
    *("/admin/accounts/creditentry/?period=2026-Q1", "/admin/accounts/creditentry/{entry}/change/"),
    *("/admin/accounts/apitoken/{token}/change/", "/admin/accounts/apitoken/{closed}/change/"),
    *("/admin/accounts/apitoken/{token}/edit/", "/admin/accounts/apitoken/{token}/revoke/"),
    *("/admin/accounts/customer/{customer}/change/", "/admin/accounts/customer/{customer}/edit/"),
    *("/admin/accounts/customer/{customer}/top-up/", "/admin/accounts/customer/{customer}/delete/"),
    *("/admin/phonebook/numberrule/", "/admin/phonebook/numberrule/{rule}/change/"),
    *("/admin/phonebook/contact/", "/admin/phonebook/contact/{contact}/change/"),
    "/admin/admin/logentry/",
    *of_addons("LONG_TEXT_PAGES").values(),
)


@pytest.fixture(scope="module")
def long_rows(service: Service) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(service.manage("shell", "-c", _FILL).splitlines()[-1])
    return made


@pytest.mark.parametrize("path", PAGES)
def test_long_words_scroll_no_page_sideways(admin_page: Page, long_rows: dict[str, Any], path: str) -> None:
    admin_page.goto(path.format(**long_rows))
    expect(admin_page.get_by_role("main")).to_be_visible()
    assert_not_cut(admin_page)


def test_messages_scroll_no_phone_sideways(admin_page: Page, long_rows: dict[str, Any]) -> None:
    page, token = admin_page, f"/admin/accounts/apitoken/{long_rows['token']}"
    page.goto(f"{token}/top-up/")
    page.get_by_label("Amount").fill("1,000")
    page.locator("#id_reason").fill(TEXT)
    page.get_by_role("button", name="Top up").click()
    expect(page.get_by_text(f"Reason: {TEXT}", exact=False).first).to_be_visible()
    assert_not_cut(page)
    page.goto(f"{token}/edit/")
    page.locator("#id_customer").fill(TEXT)
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator(".errornote")).to_be_visible()
    assert_not_cut(page)


def test_what_is_too_long_is_kept_and_not_cut(admin_page: Page, make_token: Callable[..., MadeToken]) -> None:
    page = admin_page
    page.goto(f"/admin/accounts/apitoken/{make_token(credits=5).id}/rotate/")
    reason = page.get_by_label("Reason")
    expect(page.get_by_text("At most 200 characters.")).to_be_visible()
    reason.fill("")
    reason.evaluate("e => e.select()")
    page.keyboard.insert_text("x" * 230)
    page.get_by_role("button", name="Rotate").click()
    expect(page.get_by_text("at most 200 characters (it has 230)")).to_be_visible()
    assert reason.input_value() == "x" * 230


def test_typed_comma_does_not_change_an_amount(
    admin_page: Page, make_token: Callable[..., MadeToken], account: Callable[[MadeToken], dict[str, Any]]
) -> None:
    page, token = admin_page, make_token(credits=5)
    page.goto(f"/admin/accounts/apitoken/{token.id}/top-up/")
    amount = page.get_by_label("Amount")
    page.locator("#id_reason").fill("order")
    amount.press_sequentially("12,50")
    page.get_by_role("button", name="Top up").click()
    expect(page.get_by_text("Enter a whole number, such as 1000.")).to_be_visible()
    expect(amount).to_have_value("12,50")
    assert account(token)["credits"] == 5
    amount.fill("1,000")
    page.get_by_label("Price").fill("12,50")
    page.get_by_role("button", name="Top up").click()
    expect(page.get_by_text(re.compile("1,005"))).not_to_have_count(0)
    assert account(token)["credits"] == 1005


def test_long_note_is_folded_and_opens_with_the_keyboard(admin_page: Page, long_rows: dict[str, Any]) -> None:
    page, customer = admin_page, f"/admin/accounts/customer/{long_rows['customer']}"
    page.goto(f"{customer}/edit/")
    page.get_by_label("Note").fill("\n".join(f"Line {number}" for number in range(1, 9)))
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page).to_have_url(re.compile("/change/$"))
    note = page.get_by_role("region", name="Customer", exact=True).locator("details")
    expect(note.get_by_text("Show all")).to_be_visible()
    folded = note.bounding_box()
    note.locator("summary").press("Enter")
    expect(note.get_by_text("Show all")).to_be_hidden()
    opened = note.bounding_box()
    assert folded
    assert opened
    assert opened["height"] > 2 * folded["height"]  # eight lines instead of three
    assert_accessible(page)


def test_contact_of_a_customer_is_counted_from_one(admin_page: Page, long_rows: dict[str, Any]) -> None:
    admin_page.goto(f"/admin/accounts/customer/{long_rows['customer']}/edit/")
    expect(admin_page.get_by_text("Contact 1", exact=True)).to_be_visible()


def test_month_is_selected_by_the_keyboard(admin_page: Page, filled: dict[str, Any]) -> None:
    page = admin_page
    page.goto("/admin/accounts/creditentry/")
    page.locator("#id_token").fill("#1")
    select = page.get_by_label("Month or quarter (UTC)")
    quarter = select.locator("optgroup").nth(1).locator("option").first.get_attribute("value")
    select.select_option(quarter)
    page.get_by_role("button", name="Show").press("Enter")
    expect(page).to_have_url(re.compile(f"period={quarter}"))
    expect(page.get_by_label("Active filters")).to_contain_text(f"{str(quarter)[5:]} {str(quarter)[:4]}")
    expect(select).to_have_value(str(quarter))
    assert_accessible(page)
    assert_not_cut(page)
