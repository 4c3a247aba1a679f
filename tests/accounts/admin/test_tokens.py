"""The pages of tokens and ledger: what each permission allows, and what nobody may do."""

import json
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db.models.signals import pre_save
from django.test import Client
from django.utils import timezone

from accounts import audit, credits, tokens
from accounts.models import ApiToken, Customer
from tests import awaited
from tests.accounts.admin.pages import (
    ACTIONS,
    ADD,
    BULK,
    LEDGER,
    LIST,
    NUMBER,
    history,
    page,
    submit,
)
from tests.console_pages import words

pytestmark = pytest.mark.django_db


# --- The token's page --------------------------------------------------------------------------------------------


def test_saving_a_stale_form_loses_no_debit(admin_client: Client, token: ApiToken) -> None:
    """Searches are charged after the form is opened, and again between the view's read and its save."""

    def search(**_: Any) -> None:
        for n in range(25):
            awaited.charge(token=token, request_id=f"r{n}", number=NUMBER, answer={})

    credits.top_up(token=token, amount=20, actor="op", reason="paid")
    assert admin_client.get(page(token, "change")).status_code == 200
    search()
    pre_save.connect(search, sender=ApiToken)
    try:
        response = admin_client.post(page(token, "edit"), {"name": "renamed", "note": "called back"})
    finally:
        pre_save.disconnect(search, sender=ApiToken)
    assert response.status_code == 302
    row, last = ApiToken.objects.get(pk=token.pk), token.entries.latest("pk")
    assert (row.name, row.note, row.credits, row.last_charged_at) == ("renamed", "called back", 0, last.created_at)
    assert (token.entries.filter(kind="search").count(), audit.audit()) == (50, [])


def test_form_sets_only_descriptive_fields(admin_client: Client, token: ApiToken) -> None:
    before = ApiToken.objects.values().get(pk=token.pk)
    sent: dict[str, Any] = {
        "name": "renamed",
        "note": "n",
        "contact": "a@example.org",
        "low_balance_at": 5,
        "rate_limit": 100_000,
        "credits": 999,
        "balance": 999,
        "revoked_reason": "x",
        "jti": "x",
    }
    admin_client.post(page(token, "edit"), sent)
    assert ApiToken.objects.values().get(pk=token.pk) == {
        **before,
        "name": "renamed",
        "note": "n",
        "contact": "a@example.org",
        "low_balance_at": 5,
        "rate_limit": 100_000,
    }


def test_edited_rate_limit_is_shown_and_in_the_history(admin_client: Client, token: ApiToken) -> None:
    def shown() -> Any:
        return re.findall(r"Rate limit</dt><dd>([\d,]+)<small>([^<]*)", admin_client.get(page(token, "change")).text)

    assert shown() == [("30", "requests in 60 seconds, the default")]
    assert admin_client.post(page(token, "edit"), {"name": "pbx", "rate_limit": 5_000}).status_code == 302
    assert shown() == [("5,000", "requests in 60 seconds")]
    assert [(user, json.loads(text)) for user, text in history()] == [
        ("admin", [{"changed": {"fields": ['Rate limit from nothing to "5000"']}}])
    ]


@pytest.mark.parametrize("rate_limit", [0, -1, 100_001, 10**30, "1.5", "x"])
def test_rate_limit_out_of_range_is_refused(admin_client: Client, token: ApiToken, rate_limit: Any) -> None:
    for url in (page(token, "edit"), ADD):
        text = submit(admin_client, url, name="pbx", rate_limit=rate_limit, initial_credits=0, days=1, reason="x").text
        assert "errorlist" in text
        assert "Requests in 60 seconds, 1 to 100,000. Leave empty for the default: 30." in text
    assert ApiToken.objects.get().rate_limit is None


def test_help_names_the_default_rate_limit_of_test_tokens(admin_client: Client, settings: Any) -> None:
    settings.RATE_LIMIT = (1_000, 60)
    for limit, text in (
        ((30, 60), "30 for test tokens."),
        ((5, 10), "5 in 10 seconds for test tokens."),
    ):
        settings.TEST_RATE_LIMIT = limit
        assert f"Leave empty for the default: 1,000, or {text}" in admin_client.get(ADD).text


def test_who_may_not_edit_tokens_sets_no_rate_limit(staff: Callable[..., Client], token: ApiToken) -> None:
    client = staff("view_apitoken", "top_up_apitoken", "adjust_apitoken", "rotate_apitoken", "revoke_apitoken")
    assert client.post(page(token, "edit"), {"name": "pbx", "rate_limit": 5_000}).status_code == 403
    assert ApiToken.objects.get().rate_limit is None


def test_page_links_the_available_actions(admin_client: Client, token: ApiToken) -> None:
    text = admin_client.get(page(token, "change")).text
    assert all(page(token, action) in text for action in ACTIONS)
    ledger = f"{LEDGER}?token=%23{token.pk}&since={token.created_at:%Y-%m-%d}"
    assert ledger.replace("&", "&amp;") in text
    assert admin_client.get(ledger).status_code == 200
    tokens.revoke(token=token)
    text = admin_client.get(page(token, "change")).text
    assert [action for action in ACTIONS if page(token, action) in text] == ["adjust"]


def test_token_without_credits_is_not_shown_as_active(admin_client: Client, token: ApiToken) -> None:
    def shown() -> set[str]:
        """On its page and in the list: `type state`."""
        texts = [admin_client.get(url).text for url in (page(token, "change"), LIST)]
        labels = [re.findall(r"uppercase[^>]*?(bg-\w+)-100[^>]*>\s*([\w, ]+?)\s*<", text) for text in texts]
        return {" ".join(label) for found in labels for label in found}

    assert shown() == {"bg-green active"}
    assert f"{token.hint}, active, 30 credits" in words(admin_client.get(page(token, "top-up")).text)
    credits.adjust(token=token, amount=-30, actor="op", reason="x")
    assert shown() == {"bg-orange out of credits"}
    tokens.rotate(token=token, grace=timedelta(hours=1))
    assert shown() == {"bg-orange out of credits"}
    until = f"{ApiToken.objects.get().previous_until:%Y-%m-%d %H:%M} UTC"
    assert f"previous token until {until}" in admin_client.get(page(token, "change")).text
    credits.adjust(token=token, amount=1, actor="op", reason="x")
    assert shown() == {"bg-green active, previous token works"}
    tokens.revoke(token=token)
    assert shown() == {"bg-red revoked"}


# --- Lists -------------------------------------------------------------------------------------------------------


def test_state_filter_agrees_with_the_state_shown(admin_client: Client) -> None:
    graced = ("in grace", "in grace and revoked", "in grace and expired")
    for state in ("active", "rotated", "revoked", "expired", "revoked and expired", *graced):
        made = tokens.issue(name=f"is {state}", initial_credits=0, actor="test").token
        if "grace" in state or state == "rotated":
            tokens.rotate(token=made, grace=timedelta(hours=1))
        if state == "rotated":
            ApiToken.objects.filter(pk=made.pk).update(previous_until=timezone.now())
        if "revoked" in state:
            tokens.revoke(token=made)
        if "expired" in state:
            ApiToken.objects.filter(pk=made.pk).update(expires_at=timezone.now() - timedelta(seconds=1))
    for state, how_many in {"active": 2, "in grace": 1, "revoked": 3, "expired": 2}.items():
        listed = admin_client.get(LIST, {"state": state}).context["cl"].result_list
        assert [row.state for row in listed] == [state] * how_many
    assert len(admin_client.get(LIST).context["cl"].result_list) == 8
    assert len(admin_client.get(LIST, {"q": "AND EXP"}).context["cl"].result_list) == 2


# --- The ledger --------------------------------------------------------------------------------------------------


def test_ledger_shows_no_trace_of_the_number(admin_client: Client, token: ApiToken) -> None:
    awaited.charge(token=token, request_id="req-1", number=NUMBER, answer={})
    entry = token.entries.get(kind="search")
    for url in (LEDGER, f"{LEDGER}{entry.pk}/change/"):
        text = admin_client.get(url).text
        assert NUMBER not in text
        assert "number_hash" not in text
        assert bytes(entry.number_hash or b"?").hex() not in text


# --- Permissions --------------------------------------------------------------------------------------------
ACTION_FIELDS = {"amount": 5, "reason": "x", "grace_minutes": 0, "confirmed": "on"}


@pytest.mark.parametrize("action", ACTIONS)
def test_each_action_needs_its_own_permission(staff: Callable[..., Client], token: ApiToken, action: str) -> None:
    others = [permission for name, permission in ACTIONS.items() if name != action]
    every = ("add_apitoken", "change_apitoken", "delete_apitoken", "view_apitoken", "give_any_credits")
    client = staff(*others, *every, "view_creditentry", "change_creditentry")
    fields = {**ACTION_FIELDS, "once": str(uuid4()), "expires_at": token.expires_at.isoformat()}
    before = ApiToken.objects.values().get()
    assert client.get(page(token, action)).status_code == 403
    assert client.post(page(token, action), fields).status_code == 403
    shown = client.get(page(token, "change")).text
    assert [name for name in ACTIONS if page(token, name) in shown] == [name for name in ACTIONS if name != action]
    assert (ApiToken.objects.values().get(), token.entries.count(), history()) == (before, 1, [])


@pytest.mark.parametrize("action", ACTIONS)
def test_action_needs_no_more_than_view_and_its_permission(
    staff: Callable[..., Client], token: ApiToken, action: str
) -> None:
    client = staff("view_apitoken", ACTIONS[action])
    shown = client.get(page(token, "change")).text
    assert [name for name in ACTIONS if page(token, name) in shown] == [action]
    assert submit(client, page(token, action), **ACTION_FIELDS).status_code in (302, 200)
    assert [who for who, _ in history()] == ["support"]


def test_action_pages_need_the_permission_to_view_tokens(staff: Callable[..., Client], token: ApiToken) -> None:
    client = staff(*ACTIONS.values())
    fields = {
        **ACTION_FIELDS,
        "once": str(uuid4()),
        "expires_at": token.expires_at.isoformat(),
        "tokens": str(token.pk),
    }
    before = ApiToken.objects.values().get()
    for url in (BULK, *(page(token, action) for action in ACTIONS)):
        assert [client.get(url).status_code, client.post(url, fields).status_code] == [403, 403], url
    assert (ApiToken.objects.values().get(), token.entries.count(), history()) == (before, 1, [])


def test_errors_in_the_console_are_html_pages(
    admin_client: Client, staff: Callable[..., Client], token: ApiToken
) -> None:
    answers = [admin_client.get(f"/admin/accounts/apitoken/{unknown}/top-up/") for unknown in (999, 10**30)]
    answers.append(staff("view_apitoken").get(page(token, "top-up")))
    assert [answer.status_code for answer in answers] == [404, 404, 403]
    assert all(answer["Content-Type"].startswith("text/html") for answer in answers)


def test_notes_are_labelled(admin_client: Client, token: ApiToken) -> None:
    ApiToken.objects.filter(pk=token.pk).update(note="pays late")
    customer = Customer.objects.create(name="Clinic", note="pays early")
    assert "Note: pays late" in words(admin_client.get(page(token, "change")).text)
    assert "Note: pays early" in words(admin_client.get(f"/admin/accounts/customer/{customer.pk}/change/").text)
