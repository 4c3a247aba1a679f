"""A ledger entry's page, the number check, and refunds."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from accounts import audit, credits, tokens
from accounts.models import ApiToken, CreditEntry
from console import erasure
from tests import awaited
from tests.account_fixtures import Tills
from tests.accounts.admin.pages import (
    LEDGER,
    NUMBER,
    balance,
    entry_at,
    entry_page,
    history,
    listed_entries,
)
from tests.console_pages import words

pytestmark = pytest.mark.django_db

Staff = Callable[..., Client]


# --- An entry's page ------------------------------------------------------------------------------------------------


def test_page_shows_what_a_search_cost_and_when(admin_client: Client, search: CreditEntry) -> None:
    text = admin_client.get(entry_page(search, "change")).text
    shown = words(text)
    assert f"Time (UTC) {search.created_at:%Y-%m-%d %H:%M:%S} Token pbx (#{search.token_id})" in shown
    assert "Kind Search Credits -1 Balance 29 Request id req-1" in shown
    assert "An answered search costs one credit, even if nothing is found." in text
    assert f'href="/admin/accounts/apitoken/{search.token_id}/change/"' in text
    assert "The ledger stores only a keyed hash" in text


def test_search_and_refund_link_to_each_other(admin_client: Client, search: CreditEntry) -> None:
    assert "Refund -" in words(admin_client.get(entry_page(search, "change")).text)
    refund = credits.refund(entry=search, actor="op", reason="wrong name")
    assert entry_page(refund, "change") in admin_client.get(entry_page(search, "change")).text
    text = admin_client.get(entry_page(refund, "change")).text
    assert entry_page(search, "change") in text
    assert "Kind Refund Credits +1 Balance 30 By op" in words(text)
    assert listed_entries(admin_client, request_id="req-1") == ["pbx search -1"]
    cells = re.findall(r'<td class="field-kind_text [^>]*>(.*?)</td>', admin_client.get(LEDGER).text)
    assert [words(cell) for cell in cells] == ["Refund", "Search, refunded", "Issue"]
    assert_names_the_refund(admin_client, refund, LEDGER, entry_page(search, "change"))


@pytest.mark.parametrize(
    ("kind", "amount", "shown"),
    [
        ("issue", 30, "Kind Issue Credits +30 Balance 1 By op"),
        ("top-up", 1, "Kind Top-up Credits +1 Balance 1 By op"),
        ("adjustment", -5, "Kind Adjustment Credits -5 Balance 1 By op"),
    ],
)
def test_page_describes_an_operators_entry(
    admin_client: Client, token: ApiToken, kind: str, amount: int, shown: str
) -> None:
    row = entry_at(token, timezone.now(), kind=kind, amount=amount, actor="op", reason="why so", reference="INV-1")
    text = admin_client.get(entry_page(row, "change")).text
    assert shown in words(text)
    assert "costs one credit" not in text
    assert "why so" in text
    assert "INV-1" in text
    assert "Check a number" not in text
    assert entry_page(row, "refund") not in text


def assert_names_the_refund(client: Client, refund: CreditEntry, *pages: str) -> None:
    """Each page of the refunded search, by a link, in place of an offer to refund it."""
    text = f"Refunded on {refund.created_at:%Y-%m-%d} by {refund.actor}"
    for url in pages:
        shown = client.get(url).text
        assert f">{text}</a>" in shown, url
        assert entry_page(refund, "change") in shown
        assert f"/{refund.refunds_id}/refund/" not in shown, url


def test_refunded_search_is_not_refunded_from_an_old_link(admin_client: Client, search: CreditEntry) -> None:
    refund = credits.refund(entry=search, actor="op", reason="wrong name")
    text = admin_client.get(entry_page(search, "refund")).text
    assert f"Refunded on {refund.created_at:%Y-%m-%d} by op." in words(text)
    assert (entry_page(refund, "change") in text, 'name="reason"' in text) == (True, False)
    again = admin_client.post(entry_page(search, "refund"), {"reason": "other"})
    assert (again.status_code, CreditEntry.objects.filter(kind="refund").count()) == (200, 1)


def test_pages_of_token_and_customer_name_a_refund(admin_client: Client, tills: Tills) -> None:
    awaited.charge(token=tills[0], request_id="r", number=NUMBER, answer={})
    refund = credits.refund(entry=tills[0].entries.get(kind="search"), actor="op", reason="wrong name")
    customer = f"/admin/accounts/customer/{tills[0].customer_id}/change/"
    assert_names_the_refund(admin_client, refund, f"/admin/accounts/apitoken/{tills[0].pk}/change/", customer)


# --- Checking a number -----------------------------------------------------------------------------------------


def check(client: Client, entry: CreditEntry, number: str) -> Any:
    return client.post(entry_page(entry, "check-number"), {"number": number}, follow=True)


@pytest.mark.parametrize(
    ("number", "answer"),
    [
        (NUMBER, "Yes, this search was for that number."),
        ("+49 (3023) 125-042", "Yes, this search was for that number."),
        ("493023125043", "No, this search was for another number."),
        ("03023125042", "Enter it with its country code, for example +49 30 23125042."),
        ("23125042", "Enter it with its country code, for example +49 30 23125042."),
        ("+23125042", "No, this search was for another number."),
        ("", "This field is required."),
    ],
)
def test_number_is_compared_and_not_stored(
    staff: Staff, search: CreditEntry, caplog: pytest.LogCaptureFixture, number: str, answer: str
) -> None:
    caplog.set_level("DEBUG")
    client = staff("view_creditentry")
    before = CreditEntry.objects.values().get(pk=search.pk)
    text = client.get(entry_page(search, "change")).text
    assert entry_page(search, "check-number") in text
    assert entry_page(search, "refund") not in text
    with CaptureQueriesContext(connection) as ran:
        response = check(client, search, number)
    assert response.status_code == 200
    assert answer in response.text
    if number:
        assert number not in caplog.text + str(response.headers) + str(client.cookies)
        assert (number in response.text) is ("Enter" in answer)  # to be corrected
    assert [query["sql"] for query in ran if re.match("INSERT|UPDATE|DELETE", query["sql"])] == []
    assert (CreditEntry.objects.values().get(pk=search.pk), history()) == (before, [])


def test_number_checks_are_rate_limited(
    staff: Staff, search: CreditEntry, admin_user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = staff("view_creditentry")
    monkeypatch.setattr("accounts.admin.ledger.COMPARE_RATE", (2, 3600))
    other = tokens.issue(name="other", initial_credits=5, actor="test").token
    awaited.charge(token=other, request_id="req-2", number=NUMBER, answer={})
    for row in (search, other.entries.get(kind="search")):
        assert "Yes, this search was for" in check(client, row, NUMBER).text
    limited = check(client, search, NUMBER)
    assert (limited.status_code, "Retry-After" in limited) == (429, True)
    assert "this search was for" not in limited.text
    other_user = Client()
    other_user.force_login(admin_user)
    assert "Yes, this search was for" in check(other_user, search, NUMBER).text


def test_erased_number_is_reported_as_erased(admin_client: Client, search: CreditEntry) -> None:
    erasure.erase([NUMBER])
    text = admin_client.get(entry_page(search, "change")).text
    assert "Erased: it can no longer be checked." in text
    assert "Check a number" not in text
    for row in (search, search.token.entries.get(kind="issue")):
        assert "can no longer be checked." in check(admin_client, row, NUMBER).text


# --- Refunds -----------------------------------------------------------------------------------------------------

REFUND = ("view_creditentry", "refund_creditentry")


def test_refund_is_one_entry_with_operator_and_reason(staff: Staff, search: CreditEntry) -> None:
    client = staff(*REFUND)
    assert entry_page(search, "refund") in client.get(entry_page(search, "change")).text
    asked = client.get(entry_page(search, "refund")).text
    assert "Search: <bdi>pbx</bdi> (#" in asked
    assert f"Adds 1 credit to pbx (#{search.token_id}): 29 becomes 30. A refund cannot be undone." in asked
    response = client.post(entry_page(search, "refund"), {"reason": " wrong name "})
    refund = CreditEntry.objects.get(kind="refund")
    assert response["Location"] == entry_page(search, "change")
    assert (refund.amount, refund.actor, refund.reason, refund.refunds_id) == (1, "support", "wrong name", search.pk)
    message = f"Refunded ledger entry {search.pk} by entry {refund.pk}. Reason: wrong name"
    assert history() == [("support", message)]
    assert LogEntry.objects.get(change_message=message).object_id == str(search.token_id)
    assert "Refunded; balance 30. Reason: wrong name" in client.get(entry_page(search, "change")).text
    assert (balance(search.token), audit.audit()) == (30, [])


def test_resubmitted_refund_is_one_refund(staff: Staff, search: CreditEntry, settings: Any) -> None:
    settings.SUPPORT_CREDITS_PER_DAY = 1  # used up by the first one
    client = staff(*REFUND)
    first, second = (client.post(entry_page(search, "refund"), {"reason": "wrong name "}) for _ in range(2))
    assert first["Location"] == second["Location"] == entry_page(search, "change")
    assert (balance(search.token), len(history())) == (30, 1)


def test_refunds_count_towards_the_allowance(staff: Staff, search: CreditEntry, settings: Any) -> None:
    settings.SUPPORT_CREDITS_PER_DAY = 1
    awaited.charge(token=search.token, request_id="req-2", number=NUMBER, answer={})
    second = CreditEntry.objects.get(request_id="req-2")
    client = staff(*REFUND)
    assert client.post(entry_page(search, "refund"), {"reason": "wrong"}).status_code == 302
    refused = client.post(entry_page(second, "refund"), {"reason": "wrong"})
    assert "Only 0 of your 1 credits in 24 hours are left: enter a smaller amount, or ask an operator." in refused.text
    assert (balance(search.token), len(history())) == (29, 1)
