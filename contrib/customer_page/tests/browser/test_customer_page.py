"""A customer's own page in the browser: accessible, not cut, no browser errors."""

from typing import Any

import pytest

from tests.browser.conformance import assert_conforms
from tests.browser.pages import Page, assert_not_cut, assert_title_not_cut, expect, screenshots
from tests.browser.watch import Watch
from tests.service import Service

pytestmark = pytest.mark.once

WORD = "Donaudampfschifffahrt" * 10
_LINK = """
from accounts.models import Customer
from contrib.customer_page import links
print(links.make(customer=Customer.objects.get(pk={customer}), days=7))
"""
_LONG_NAMES = f"""
from accounts import credits, customers, tokens
customer = customers.create(name={WORD[:100]!r})
tokens.issue(name={WORD[:100]!r}, initial_credits=9, actor="op", customer=customer)
print(customer.pk)
"""


def page_of(service: Service, customer: Any) -> str:
    return "/customer/" + service.manage("shell", "-c", _LINK.format(customer=customer)).splitlines()[-1]


def test_page_is_accessible_and_not_cut(page: Page, service: Service, filled: dict[str, Any]) -> None:
    page.goto(page_of(service, filled["customer"]))
    expect(page.get_by_role("heading", name="API tokens")).to_be_visible()
    page.get_by_text("Show as a table").click()
    assert_not_cut(page)
    assert_title_not_cut(page)
    assert_conforms(page)
    page.get_by_text("Show as a table").click()
    screenshots(page, "customers-own-page")
    assert page.context.cookies() == []


def test_link_that_is_not_valid_shows_a_page(page: Page, watch: Watch) -> None:
    watch.expect_status(404)
    page.goto("/customer/guess")
    expect(page.get_by_role("heading", name="This link is not valid")).to_be_visible()
    assert_not_cut(page)
    assert_conforms(page)
    screenshots(page, "customers-own-page-invalid")


def test_long_words_do_not_scroll_the_page_sideways(page: Page, service: Service) -> None:
    page.goto(page_of(service, service.manage("shell", "-c", _LONG_NAMES).splitlines()[-1]))
    expect(page.get_by_role("main")).to_be_visible()
    assert_not_cut(page)
