"""Moving credits in the console: to the tokens of the same customer only, once, and when a token is revoked."""

import html
import re
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from accounts import customers, tokens
from accounts.models import ApiToken, CreditEntry
from tests.account_fixtures import Tills
from tests.accounts.admin.pages import (
    amounts,
    balance,
    entry_page,
    hidden_fields,
    history,
    listed_entries,
    page,
    post_concurrently,
    submit,
)
from tests.console_pages import words

pytestmark = pytest.mark.django_db


def options(client: Client, url: str) -> list[str]:
    """What the field with the target offers, as `value: label`, without its empty option."""
    found = re.search(r'<select name="to_token".*?</select>', client.get(url).text, re.DOTALL)
    return [
        f"{value}: {label}" for value, label in re.findall(r'<option value="(\d+)">([^<]*)', found[0] if found else "")
    ]


def test_credits_move_with_entries_on_both_tokens(admin_client: Client, tills: Tills) -> None:
    one, other = tills
    url = page(one, "move-credits")
    response = submit(admin_client, url, to_token=other.pk, amount=20, reason="closed")
    assert (response.status_code, response["Location"]) == (302, page(one, "change"))
    taken, given = CreditEntry.objects.filter(kind="transfer").order_by("pk")
    assert (taken.amount, given.amount, given.actor, given.reason) == (-20, 20, "admin", "closed")
    entries = f"ledger entries {taken.pk} and {given.pk}. Reason: closed"
    moved, received = (
        f"Moved 20 credits to till 2 (#{other.pk}), {entries}",
        f"Received 20 credits from till 1 (#{one.pk})",
    )
    assert history() == [("admin", moved), ("admin", f"{received}, {entries}")]
    assert moved in admin_client.get(page(one, "history"), follow=True).text
    assert received in admin_client.get(page(other, "history"), follow=True).text
    assert f"Transfer to #{other.pk}</td>" in admin_client.get(page(one, "change")).text
    assert f"Transfer from #{one.pk}</td>" in admin_client.get(page(other, "change")).text


def test_entry_links_the_other_token_and_its_entry(admin_client: Client, tills: Tills) -> None:
    submit(admin_client, page(tills[0], "move-credits"), to_token=tills[1].pk, amount=20, reason="closed")
    entries = list(CreditEntry.objects.filter(kind="transfer").order_by("pk"))
    for entry, counterpart in (entries, entries[::-1]):
        text = admin_client.get(entry_page(entry, "change")).text
        assert f'href="{page(counterpart.token, "change")}"><bdi>{counterpart.token.name}</bdi> (#' in text
        assert f'href="{entry_page(counterpart, "change")}">Ledger entry {counterpart.pk}</a>' in text
        assert entry.reference not in text  # the page's, not an operator's
    assert listed_entries(admin_client, kind="transfer") == ["till 2 transfer 20", "till 1 transfer -20"]


def test_page_offers_usable_tokens_of_the_customer(admin_client: Client, tills: Tills) -> None:
    owner = tills[0].customer
    assert owner is not None
    revoked = tokens.issue(name="revoked", customer=owner, actor="test").token
    tokens.revoke(token=revoked)
    others = [
        revoked,
        tills[0],
        tokens.issue(name="sandbox", customer=owner, is_test=True, actor="test").token,
        tokens.issue(name="stranger", customer=customers.create(name="Another"), actor="test").token,
        tokens.issue(name="ownerless", actor="test").token,
    ]
    expired = tokens.issue(name="old", initial_credits=1_000, customer=owner, actor="test").token
    ApiToken.objects.filter(pk=expired.pk).update(expires_at=expired.created_at)
    offered = [
        f"{expired.pk}: old (#{expired.pk}): 1,000 credits, expired",
        f"{tills[1].pk}: till 2 (#{tills[1].pk}): 5 credits",
    ]
    for action in ("move-credits", "revoke"):
        assert options(admin_client, page(tills[0], action)) == offered
        for other in (*others, ""):
            if action == "revoke" and not other:
                continue  # leaves the credits there
            pk = other.pk if isinstance(other, ApiToken) else other
            text = submit(admin_client, page(tills[0], action), to_token=pk, amount=1, reason="x").text
            assert "Choose a token of this customer" in text or "This field is required" in text
    assert not CreditEntry.objects.filter(kind="transfer").exists()
    assert (ApiToken.objects.get(pk=tills[0].pk).state, history()) == ("active", [])


def test_amount_is_only_filled_in_for_a_revoked_token(admin_client: Client, tills: Tills) -> None:
    url = page(tills[0], "move-credits")
    opened = admin_client.get(url)
    assert opened.context["form"]["amount"].value() is None
    assert "This token has 30 credits." in opened.text
    tokens.revoke(token=tills[0])
    assert admin_client.get(url).context["form"]["amount"].value() == 30


def test_resubmitted_page_moves_once(admin_client: Client, tills: Tills) -> None:
    one, other = tills
    url = page(one, "move-credits")
    fields = {**hidden_fields(admin_client.get(url)), "to_token": other.pk, "amount": 20, "reason": "closed"}
    assert [admin_client.post(url, fields).status_code for _ in range(2)] == [302] * 2
    assert "Already recorded (ledger entries" in admin_client.get(page(one, "change")).text
    assert (balance(one), balance(other), len(history())) == (10, 25, 2)


@pytest.mark.django_db(transaction=True)
def test_page_submitted_concurrently_moves_once(admin_user: User, tills: Tills) -> None:
    one, other = tills
    client = Client()
    client.force_login(admin_user)
    url = page(one, "move-credits")
    fields = {**hidden_fields(client.get(url)), "to_token": other.pk, "amount": 20, "reason": "closed"}
    assert [answer.status_code for answer in post_concurrently(admin_user, url, fields)] == [302] * 3
    assert (balance(one), balance(other), len(history())) == (10, 25, 2)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"amount": 31}, "has only 30 credits."),
        ({"amount": 0}, "greater than or equal to 1."),
        ({"amount": "1.5"}, "Enter a whole number, such as 1000."),
        ({"reason": " "}, "This field is required."),
        ({"once": "x"}, "Enter a valid UUID."),
    ],
)
def test_rejected_move_says_why_and_changes_nothing(
    admin_client: Client, tills: Tills, wrong: dict[str, Any], sentence: str
) -> None:
    fields = {"to_token": tills[1].pk, "amount": 20, "reason": "closed", **wrong}
    assert sentence in submit(admin_client, page(tills[0], "move-credits"), **fields).text
    assert ([balance(token) for token in tills], history()) == ([30, 5], [])


def test_button_is_where_credits_can_be_moved(admin_client: Client, tills: Tills) -> None:
    one, other = tills

    def offered(token: ApiToken) -> bool:
        return page(token, "move-credits") in admin_client.get(page(token, "change")).text

    assert offered(one)
    tokens.revoke(token=one)
    assert offered(one)
    submit(admin_client, page(one, "move-credits"), to_token=other.pk, amount=30, reason="closed")
    assert not offered(one)
    assert offered(tokens.issue(name="x", initial_credits=5, actor="test").token)  # the page says what to do first
    assert not offered(tokens.issue(name="x", customer=one.customer, is_test=True, actor="test").token)
    assert "has no other token" in admin_client.get(page(other, "move-credits")).text


# --- When a token is revoked -----------------------------------------------------------------------------------------


def test_revocation_moves_what_is_left(admin_client: Client, tills: Tills) -> None:
    one, other = tills
    response = submit(admin_client, page(one, "revoke"), to_token=other.pk, reason="closed")
    assert response.status_code == 302
    one.refresh_from_db()
    assert (one.state, balance(one), balance(other), amounts(other, "transfer")) == ("revoked", 0, 35, [30])
    assert [text.partition(",")[0] for _, text in history()] == [
        "Revoked. Reason: closed",
        f"Moved 30 credits to till 2 (#{other.pk})",
        f"Received 30 credits from till 1 (#{one.pk})",
    ]
    assert f"Revoked. Moved 30 credits to till 2 (#{other.pk})" in admin_client.get(page(one, "change")).text
    assert "already revoked" in submit(admin_client, page(one, "revoke"), to_token=other.pk, reason="again").text
    assert len(history()) == 3


def test_revocation_may_leave_the_credits(admin_client: Client, tills: Tills) -> None:
    one, other = tills
    assert submit(admin_client, page(one, "revoke"), to_token="", reason="lost").status_code == 302
    assert (ApiToken.objects.get(pk=one.pk).state, balance(one), balance(other)) == ("revoked", 30, 5)
    assert history() == [("admin", "Revoked. Reason: lost")]


def test_revocation_offers_only_what_the_user_may_do(staff: Callable[..., Client], tills: Tills) -> None:
    client = staff("view_apitoken", "revoke_apitoken")
    one, other = tills
    assert options(client, page(one, "revoke")) == []
    assert client.get(page(one, "move-credits")).status_code == 403
    assert submit(client, page(one, "revoke"), to_token=other.pk, reason="lost").status_code == 302
    assert (balance(one), balance(other)) == (30, 5)


def test_page_submitted_again_with_another_amount_says_so(admin_client: Client, tills: Tills) -> None:
    url = page(tills[0], "move-credits")
    fields = {**hidden_fields(admin_client.get(url)), "to_token": tills[1].pk, "reason": "closed"}
    assert admin_client.post(url, {**fields, "amount": 10}).status_code == 302
    assert "submitted before with another amount or token" in admin_client.post(url, {**fields, "amount": 20}).text
    assert CreditEntry.objects.filter(kind="transfer").count() == 2


def test_target_revoked_meanwhile_stops_the_revocation(admin_client: Client, tills: Tills) -> None:
    ApiToken.objects.exclude(pk__in=[till.pk for till in tills[:2]]).update(customer=None)
    url = page(tills[0], "revoke")
    fields = {**hidden_fields(admin_client.get(url)), "confirmed": "on", "reason": "lost", "to_token": tills[1].pk}
    tokens.revoke(token=tills[1])
    assert "Choose a token of this customer that is not revoked." in admin_client.post(url, fields).text
    tills[0].refresh_from_db()
    assert tills[0].revoked_at is None
    later = "; they can be moved later to another token of the customer."
    assert f"Its credits cannot be spent then{later}" in admin_client.get(url).text
    ApiToken.objects.filter(pk=tills[0].pk).update(customer=None)
    assert "Its credits cannot be spent then." in admin_client.get(url).text
    ApiToken.objects.filter(pk=tills[0].pk).update(credits=0)
    assert "cannot be spent" not in admin_client.get(url).text


def test_credits_left_by_revocation_are_moved_to_a_later_token(admin_client: Client, tills: Tills) -> None:
    left = tills[0]
    ApiToken.objects.exclude(pk=left.pk).update(customer=None)
    assert submit(admin_client, page(left, "revoke"), reason="lost").status_code == 302
    later = tokens.issue(name="till 9", initial_credits=0, actor="op", customer=left.customer).token
    submit(admin_client, page(left, "move-credits"), to_token=later.pk, amount=30, reason="revoked")
    assert (balance(left), balance(later)) == (0, 30)


# --- Without another token ---------------------------------------------------------------------------------------


def test_lack_of_another_token_leads_to_issuing_one(admin_client: Client, tills: Tills) -> None:
    one, other = tills
    tokens.revoke(token=other)
    url = page(one, "move-credits")
    text = admin_client.get(url).text
    assert f"{one.customer} has no other token that can get the credits." in words(text)
    assert f"Issue an API token for {one.customer}" in words(text)
    assert 'name="amount"' not in text
    (issue_url,) = re.findall(r'href="([^"]+move_from=[^"]+)"', text)
    opened = admin_client.get(issue_url := html.unescape(issue_url))
    fields = {"customer": opened.context["form"]["customer"].value(), "name": "till 3", "initial_credits": 0}
    shown = submit(admin_client, issue_url, **fields, days=30, reason="new")
    (back_url,) = re.findall(r'<a href="([^"]+)"[^>]*>\s*I have made a copy', shown.text)
    assert back_url == url
    made = ApiToken.objects.get(name="till 3")
    assert admin_client.get(back_url).context["form"]["to_token"].value() in (made, made.pk)


def test_token_without_customer_leads_to_entering_one(admin_client: Client, token: ApiToken) -> None:
    assert page(token, "move-credits") in admin_client.get(page(token, "change")).text
    text = admin_client.get(page(token, "move-credits")).text
    assert "this token has no customer. Edit the token, and enter its customer." in words(text)
    assert f'href="{page(token, "edit")}"' in text
    submitted = submit(admin_client, page(token, "move-credits"), to_token=token.pk, amount=1, reason="x")
    assert "this token has no customer" in submitted.text
    assert balance(token) == 30


def test_who_may_not_issue_is_told_whom_to_ask(staff: Callable[..., Client], token: ApiToken, tills: Tills) -> None:
    client = staff("view_apitoken", "transfer_apitoken")
    tokens.revoke(token=tills[1])
    for one, ask in ((token, "Ask an operator to enter one."), (tills[0], "Ask an operator to issue one.")):
        text = client.get(page(one, "move-credits")).text
        assert ask in words(text)
        assert page(one, "edit") not in text
        assert "/apitoken/add/" not in text
