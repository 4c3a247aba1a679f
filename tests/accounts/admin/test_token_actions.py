"""Issue, top up, adjust, rotate, revoke: what a double click or an outdated page must not do."""

import html
import re
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any
from urllib.parse import unquote
from uuid import uuid4

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.test import Client
from django.utils import timezone

from accounts import tokens
from accounts.models import ApiToken, CreditEntry, Customer, CustomerContact
from tests import awaited
from tests.account_fixtures import Tills
from tests.accounts.admin.pages import (
    ADD,
    LEDGER,
    LIST,
    amounts,
    balance,
    hidden_fields,
    history,
    issue,
    page,
    post_concurrently,
    submit,
)
from tests.console_pages import words

pytestmark = pytest.mark.django_db


# --- Issue -------------------------------------------------------------------------------------------------------


def test_issuing_makes_a_token_with_its_first_ledger_entry(admin_client: Client) -> None:
    notice = {"contact": "desk@example.org", "low_balance_at": 20, "rate_limit": 120}
    response = issue(admin_client, name="Night desk", initial_credits=100, days=30, note="Invoice 17", **notice)
    assert response.status_code == 200
    row = ApiToken.objects.get()
    assert (row.name, row.credits, row.lifetime_days, row.note) == ("Night desk", 100, 30, "Invoice 17")
    assert (row.contact, row.low_balance_at, row.rate_limit) == ("desk@example.org", 20, 120)
    entry = CreditEntry.objects.get()
    assert (entry.kind, entry.amount, entry.actor) == ("issue", 100, "admin")
    assert history() == [("admin", "Issued: 100 credits, 30 days. Reason: order")]


def assert_shown_once(client: Client, response: Any, token: ApiToken, logged: str) -> None:
    assert response.status_code == 200
    assert "no-store" in response["Cache-Control"]
    shown = set(re.findall(r"eyJ[\w-]+\.[\w-]+\.[\w-]+", response.text))
    assert len(shown) == 1
    api_key = shown.pop()
    assert awaited.verify(api_key).pk == token.pk
    assert "curl -s http://testserver/callerid/search -H" in response.text
    again = [LIST, page(token, "change"), page(token, "history"), page(token, "rotate"), LEDGER, "/admin/"]
    elsewhere = [
        *(client.get(url).text for url in again),
        *(str(vars(row)) for model in (ApiToken, CreditEntry, LogEntry) for row in model.objects.all()),
        *(str(session.get_decoded()) for session in Session.objects.all()),
        str(client.cookies),
        str(response.headers),
        logged,
    ]
    signature = api_key.rpartition(".")[2]
    assert not any(signature in place for place in elsewhere)


def test_issued_token_is_shown_once_and_nowhere_else(admin_client: Client, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    response = issue(admin_client)
    assert_shown_once(admin_client, response, ApiToken.objects.get(), caplog.text)


def test_rotated_token_is_shown_once_and_nowhere_else(
    admin_client: Client, token: ApiToken, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    response = submit(admin_client, page(token, "rotate"), grace_minutes=0, reason="leaked")
    assert_shown_once(admin_client, response, token, caplog.text)


def test_resubmitted_issue_page_issues_no_second_token(admin_client: Client) -> None:
    fields = {
        **hidden_fields(admin_client.get(ADD)),
        "name": "new",
        "initial_credits": 10,
        "days": 30,
        "reason": "order",
    }
    assert "eyJ" in admin_client.post(ADD, fields).text
    repeated = admin_client.post(ADD, fields)
    assert f"has already issued token #{ApiToken.objects.get().pk}" in repeated.text
    assert "eyJ" not in repeated.text
    assert len(history()) == 1


@pytest.mark.django_db(transaction=True)
def test_issue_page_submitted_concurrently_issues_one_token(admin_user: User) -> None:
    fields = {"once": str(uuid4()), "name": "new", "initial_credits": 10, "days": 30, "reason": "order"}
    answers = post_concurrently(admin_user, ADD, fields)
    assert [answer.status_code for answer in answers] == [200] * 3
    assert sum("eyJ" in answer.text for answer in answers) == 1
    assert (ApiToken.objects.count(), CreditEntry.objects.count(), len(history())) == (1, 1, 1)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"initial_credits": -1}, "greater than or equal to 0"),
        ({"initial_credits": 10**30}, "less than or equal to 1000000000."),
        ({"days": 0}, "greater than or equal to 1."),
        ({"days": 10**30}, "less than or equal to 36500."),
        ({"name": "a\x1bb"}, "printable characters"),
        ({"name": ""}, "This field is required."),
        ({"contact": "x"}, "Enter a valid email address."),
        ({"low_balance_at": -1}, "greater than or equal to 0"),
        ({"low_balance_at": 10**30}, "less than or equal to"),
        ({"once": "x"}, "Enter a valid UUID."),
    ],
)
def test_rejected_issue_says_why_and_changes_nothing(
    admin_client: Client, wrong: dict[str, Any], sentence: str
) -> None:
    response = issue(admin_client, **{"note": "kept", **wrong})
    assert sentence in response.text
    assert "kept" in response.text
    assert (ApiToken.objects.count(), CreditEntry.objects.count(), history()) == (0, 0, [])


# --- Top up and adjust -------------------------------------------------------------------------------------------


def test_entries_show_an_entered_reference_only(admin_client: Client, token: ApiToken) -> None:
    submit(admin_client, page(token, "top-up"), amount=25, reason="paid", own_reference="INV-17")
    submit(admin_client, page(token, "top-up"), amount=26, reason="paid again")
    made = token.entries.get(amount=26).reference
    shown = [admin_client.get(url).text for url in (page(token, "change"), LEDGER)]
    assert [("INV-17" in text, "paid again" in text, made in text) for text in shown] == [(True, True, False)] * 2


def test_top_up_is_one_ledger_entry_with_operator_and_reason(admin_client: Client, token: ApiToken) -> None:
    response = submit(admin_client, page(token, "top-up"), amount=25, reason="Invoice 17")
    assert response.status_code == 302
    assert response["Location"] == page(token, "change")
    entry = token.entries.get(kind="top-up")
    assert (entry.amount, entry.actor, entry.reason, balance(token)) == (25, "admin", "Invoice 17", 55)
    message = f"Added ledger entry {entry.pk}, top-up of +25 credits, balance 55. Reason: Invoice 17"
    assert history() == [("admin", message)]
    assert f"ledger entry {entry.pk}" in admin_client.get(page(token, "change")).text


@pytest.mark.parametrize("action", ["top-up", "adjust"])
def test_resubmitted_page_adds_one_ledger_entry(admin_client: Client, token: ApiToken, action: str) -> None:
    url = page(token, action)
    fields = {**hidden_fields(admin_client.get(url)), "amount": 25, "reason": "Invoice 17", "confirmed": "on"}
    assert [admin_client.post(url, fields).status_code for _ in range(3)] == [302] * 3
    assert (balance(token), token.entries.count(), len(history())) == (55, 2, 1)
    assert "Already recorded (ledger entry" in admin_client.get(page(token, "change")).text


def test_operators_reference_is_unique_over_all_pages(admin_client: Client, token: ApiToken) -> None:
    for _ in range(2):
        submit(admin_client, page(token, "top-up"), amount=25, reason="paid", own_reference=" INV-17 ")
    assert amounts(token, "top-up") == [25]
    entry = token.entries.get(kind="top-up")
    assert entry.reference == "INV-17"
    message = f"Added ledger entry {entry.pk}, top-up of +25 credits, reference INV-17, balance 55. Reason: paid"
    assert history() == [("admin", message)]
    response = submit(admin_client, page(token, "top-up"), amount=26, reason="paid", own_reference="INV-17")
    assert "This reference was used for another entry" in response.text
    assert (balance(token), len(history())) == (55, 1)
    submit(admin_client, page(token, "top-up"), amount=5, own_reference="INV-18")
    assert CreditEntry.objects.get(reference="INV-18").reason == "Reference INV-18"


def test_entry_with_a_reference_alone_shows_it_once(admin_client: Client, token: ApiToken) -> None:
    submit(admin_client, page(token, "top-up"), amount=5, own_reference="INV-18")
    entry = token.entries.get(kind="top-up")
    assert f"reference {entry.reference}" in admin_client.get(page(token, "change")).text  # the message too
    for url in (f"{LEDGER}{entry.pk}/change/", LEDGER):
        assert words(admin_client.get(url).text).count("INV-18") == 1


def test_message_has_price_and_reference_once(admin_client: Client, token: ApiToken, settings: Any) -> None:
    settings.CURRENCY = "EUR"
    submit(admin_client, page(token, "top-up"), amount=500, own_reference="INV-18", price="12.50")
    entry = token.entries.get(kind="top-up")
    what = f"ledger entry {entry.pk}, top-up of +500 credits for 12.50 EUR, reference INV-18"
    assert history() == [("admin", f"Added {what}, balance 530.")]


def test_reason_and_reference_are_not_both_called_optional(admin_client: Client, token: ApiToken) -> None:
    for action in ("top-up", "adjust"):
        text = admin_client.get(page(token, action)).text
        labels = [words(label) for label in re.findall(r"(?s)<label[^>]*>(.*?)</label>", text)]
        first = labels.index("Reference (required without a reason)")
        assert labels[first + 1] == "Reason (required without a reference)"
        assert "Not the invoice number: that is the reference." in text
        assert "Price (optional)" in labels
        assert "Enter a reason or a reference." in submit(admin_client, page(token, action), amount=5).text


@pytest.mark.parametrize("action", ["top-up", "adjust", "move-credits", "rotate", "revoke"])
def test_forms_tell_tokens_of_one_name_apart(admin_client: Client, token: ApiToken, action: str) -> None:
    ApiToken.objects.filter(pk=token.pk).update(customer=Customer.objects.create(name="Harbour"), credits=1)
    token.refresh_from_db()
    text = words(admin_client.get(page(token, action)).text)
    assert f"{token.hint}, active, 1 credit, {token.customer}" in text


@pytest.mark.parametrize(
    ("action", "wrong"),
    [
        ("top-up", {"amount": 0}),
        ("top-up", {"amount": -5}),
        ("top-up", {"amount": 10**30}),
        ("top-up", {"amount": "1.5"}),
        ("top-up", {"reason": "  ", "own_reference": ""}),
        ("top-up", {"reason": "x" * 201}),
        ("top-up", {"own_reference": "x" * 101}),
        ("top-up", {"once": ""}),
        ("adjust", {"amount": 0}),
        ("adjust", {"confirmed": ""}),
        ("rotate", {"grace_minutes": ""}),
        ("rotate", {"grace_minutes": 30}),
        ("revoke", {"reason": ""}),
        ("revoke", {"confirmed": ""}),
    ],
)
def test_rejected_action_says_why_and_changes_nothing(
    admin_client: Client, token: ApiToken, action: str, wrong: dict[str, Any]
) -> None:
    before = ApiToken.objects.values().get(pk=token.pk)
    fields = {"amount": 5, "reason": "why", "own_reference": "INV-17", "grace_minutes": 0, **wrong}
    response = submit(admin_client, page(token, action), **fields)
    assert response.status_code == 200
    assert "errorlist" in response.text
    assert "eyJhbGciO" not in response.text
    assert ApiToken.objects.values().get(pk=token.pk) == before
    assert (token.entries.count(), history()) == (1, [])


def test_excessive_amount_is_named_although_it_has_a_price(
    admin_client: Client, token: ApiToken, settings: Any
) -> None:
    settings.CREDIT_PRICE = Decimal("0.05")
    text = submit(admin_client, page(token, "top-up"), amount=99_999_999_999, reason="typo").text
    assert "less than or equal to 1000000000." in text
    assert "price is a number" not in text


@pytest.mark.parametrize("action", ["adjust", "revoke"])
def test_unticked_box_says_what_to_do(admin_client: Client, token: ApiToken, action: str) -> None:
    text = submit(admin_client, page(token, action), amount=5, reason="why", confirmed="").text
    assert "Tick the box to confirm." in text
    assert "This field is required." not in text


# --- Rotate and revoke -------------------------------------------------------------------------------------------


def test_stolen_token_does_not_keep_working_by_default(admin_client: Client, token: ApiToken) -> None:
    asked = admin_client.get(page(token, "rotate"))
    assert asked.context["form"]["grace_minutes"].value() is None
    choices = [str(name) for _, name in asked.context["form"].fields["grace_minutes"].choices]
    assert choices == ["No time: choose this if it was stolen or leaked", "1 hour", "1 day", "7 days"]
    assert "A leaked token can have it too, if the customer needs it" in words(asked.text)
    assert "to_token" not in asked.context["form"].fields
    assert "This field is required." in submit(admin_client, page(token, "rotate"), reason="leaked").text
    assert ApiToken.objects.get(pk=token.pk).jti == token.jti


def test_credits_of_a_stolen_token_can_be_moved(admin_client: Client, tills: Tills) -> None:
    one, other = tills
    url = page(one, "rotate")
    shown = submit(admin_client, url, grace_minutes=0, reason="stolen", to_token=other.pk)
    assert "The previous token has stopped. Moved 30 credits to till 2" in words(shown.text)
    assert "Reason: stolen. The balance of the new token is 0 credits." in words(shown.text)
    assert (balance(one), balance(other)) == (0, 35)
    assert [entry for entry in history() if "Rotated" in entry[1]] == [
        ("admin", "Rotated. The previous token keeps working for: none. Reason: stolen")
    ]
    shown = submit(admin_client, page(other, "rotate"), grace_minutes=60, reason="stolen", to_token="")
    assert "Moved" not in words(shown.text)
    assert "UTC. The balance of the new token is 35 credits." in words(shown.text)
    assert balance(other) == 35


def test_refused_move_does_not_rotate(admin_client: Client, tills: Tills) -> None:
    one, other = tills
    opened = hidden_fields(admin_client.get(page(one, "rotate")))
    tokens.revoke(token=other)
    refused = admin_client.post(
        page(one, "rotate"), {**opened, "grace_minutes": 0, "reason": "stolen", "to_token": other.pk}
    )
    assert "Choose a token of this customer that is not revoked." in refused.text
    assert (ApiToken.objects.get(pk=one.pk).jti, balance(one)) == (one.jti, 30)


def test_credits_are_moved_by_those_who_may_alone(staff: Callable[..., Client], tills: Tills) -> None:
    client = staff("view_apitoken", "rotate_apitoken")
    assert "to_token" not in client.get(page(tills[0], "rotate")).context["form"].fields


@pytest.mark.parametrize(
    ("contact", "to"), [("desk@example.org", "desk@example.org"), ("", "a@example.org,b+c%25@example.org")]
)
def test_message_to_the_customer_holds_no_token(admin_client: Client, tills: Tills, contact: str, to: str) -> None:
    token = tills[0]
    assert token.customer is not None
    ApiToken.objects.filter(pk=token.pk).update(contact=contact, name="Müller & Söhne?")
    for email in ("a@example.org", "b+c%@example.org"):
        CustomerContact.objects.create(customer=token.customer, email=email)
    shown = submit(admin_client, page(token, "rotate"), grace_minutes=24 * 60, reason="stolen")
    (mail_url,) = re.findall(r'href="(mailto:[^"]+)"', shown.text)
    address, _, query = html.unescape(mail_url).partition("?")
    assert address == f"mailto:{to}".replace("+", "%2B")
    mail = {name: unquote(value) for name, value in (each.split("=", 1) for each in query.split("&"))}
    assert mail["subject"] == "New API token: Müller & Söhne?"
    assert mail["body"].startswith(
        f"Your API token Müller & Söhne? ({token.hint}) was replaced. The previous token works"
    )
    (message,) = re.findall(r'<pre id="notice"[^>]*>([^<]+)</pre>', shown.text)
    assert html.unescape(message) == mail["body"]
    assert "eyJhbGciOi" not in mail["body"] + query


def test_rotated_token_works_for_the_selected_time(admin_client: Client) -> None:
    issued = tokens.issue(name="pbx", initial_credits=3, actor="test")
    submit(admin_client, page(issued.token, "rotate"), grace_minutes=7 * 24 * 60, reason="leaked")
    until = ApiToken.objects.get(pk=issued.token.pk).previous_until
    assert until is not None
    assert timedelta(days=6, hours=23) < until - timezone.now() <= timedelta(days=7)
    assert history() == [("admin", "Rotated. The previous token keeps working for: 7 days. Reason: leaked")]


def test_resubmitted_rotation_keeps_the_first_grace_period(admin_client: Client) -> None:
    issued = tokens.issue(name="pbx", initial_credits=3, actor="test")
    url = page(issued.token, "rotate")
    fields = {**hidden_fields(admin_client.get(url)), "grace_minutes": 60, "reason": "leaked"}
    assert "works until" in admin_client.post(url, fields).text
    repeated = admin_client.post(url, fields)
    assert "was rotated after you opened this page" in repeated.text
    assert "eyJhbGciO" not in repeated.text
    assert awaited.verify(issued.api_key).pk == issued.token.pk
    assert len(history()) == 1


def test_ended_grace_period_refuses_the_previous_token_alone(admin_client: Client) -> None:
    issued = tokens.issue(name="pbx", initial_credits=3, actor="test")
    url, ending = page(issued.token, "end-grace"), "The grace period of the previous token ends."
    assert url not in admin_client.get(page(issued.token, "change")).text
    assert ending not in admin_client.get(page(issued.token, "rotate")).text
    rotated = tokens.rotate(token=issued.token, grace=timedelta(days=1))
    assert url in admin_client.get(page(issued.token, "change")).text
    assert ending in admin_client.get(page(issued.token, "rotate")).text
    submit(admin_client, url, reason="leaked", confirmed="")
    assert awaited.verify(issued.api_key).pk == issued.token.pk
    for _ in range(2):
        assert submit(admin_client, url, reason="leaked").status_code == 302
    with pytest.raises(tokens.InvalidToken):
        awaited.verify(issued.api_key)
    assert awaited.verify(rotated.api_key).pk == issued.token.pk
    assert history() == [("admin", "Ended the grace period. Reason: leaked")]
    text = admin_client.get(page(issued.token, "change")).text
    assert "has ended already" in text
    assert url not in text


def test_revocation_is_immediate_and_recorded_once(admin_client: Client) -> None:
    issued = tokens.issue(name="pbx", initial_credits=3, actor="test")
    assert submit(admin_client, page(issued.token, "revoke"), reason="lost").status_code == 302
    with pytest.raises(tokens.InvalidToken):
        awaited.verify(issued.api_key)
    assert ApiToken.objects.get().revoked_reason == "lost"
    assert "already revoked" in submit(admin_client, page(issued.token, "revoke"), reason="again").text
    assert (
        "A revoked token cannot be rotated."
        in submit(admin_client, page(issued.token, "rotate"), grace_minutes=0, reason="leaked").text
    )
    assert history() == [("admin", "Revoked. Reason: lost")]
    assert ApiToken.objects.get().revoked_reason == "lost"
