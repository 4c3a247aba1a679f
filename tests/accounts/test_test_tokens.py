"""A test token has no credits: every service and page that changes a balance refuses it."""

import re
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from accounts import audit, credits, tokens
from accounts.models import ApiToken, CreditEntry, TokenDay
from tests import awaited
from tests.accounts.admin.pages import LIST, hidden_fields, history, issue, issue_token, page, select

pytestmark = pytest.mark.django_db
REFUSED = "A test token has no credits: its searches are never charged."


@pytest.fixture
def test_token() -> ApiToken:
    return tokens.issue(name="sandbox", actor="test", is_test=True).token


def assert_unchanged(token: ApiToken) -> None:
    token.refresh_from_db()
    assert (token.credits, token.is_test, token.last_charged_at) == (0, True, None)
    assert list(token.entries.values_list("kind", "amount")) == [("issue", 0)]
    assert audit.audit() == []


# --- Services --------------------------------------------------------------------------------------------------------


def test_no_change_of_a_balance_is_accepted(test_token: ApiToken) -> None:
    some: dict[str, Any] = {"token": test_token, "actor": "op", "reason": "x"}
    for kind in CreditEntry.Kind:
        for amount in (1, -1):
            with pytest.raises(credits.ChangeRefused):
                credits.change_balance(**some, amount=amount, kind=kind)
    for service in (credits.top_up, credits.adjust):
        with pytest.raises(credits.ChangeRefused, match=REFUSED):
            service(**some, amount=5, reference="r")
    tokens.revoke(token=test_token)
    with pytest.raises(credits.ChangeRefused, match=REFUSED):
        credits.top_up(**some, amount=5)
    assert_unchanged(test_token)


# --- Console ---------------------------------------------------------------------------------------------------------


def test_console_issues_a_test_token(admin_client: Client) -> None:
    response = issue(admin_client, is_test="on", initial_credits=0)
    api_key = re.findall(r"eyJ[\w-]+\.[\w-]+\.[\w-]+", response.text)[0]
    token = ApiToken.objects.get()
    assert (awaited.verify(api_key).pk, token.is_test, token.credits) == (token.pk, True, 0)
    assert "12125550100" in response.text
    assert history() == [("admin", "Issued: no credits (a test token), 30 days. Reason: order")]
    assert not awaited.verify(re.findall(r"eyJ[\w-]+\.[\w-]+\.[\w-]+", issue(admin_client).text)[0]).is_test


def test_list_has_a_badge_and_a_filter(admin_client: Client, test_token: ApiToken) -> None:
    issue_token("live")
    issue_token("empty", 0)

    def listed(**query: str) -> list[str]:
        return [token.name for token in admin_client.get(LIST, query).context["cl"].result_list]

    cells = re.findall(r"field-balance[^>]*>(.*?)</td>", admin_client.get(LIST).text, re.DOTALL)
    assert [re.sub("<[^>]*>", "", cell).strip() for cell in cells] == ["0", "30", "test"]
    assert (listed(mode="test"), listed(mode="live"), listed(mode="x")) == (
        ["sandbox"],
        ["empty", "live"],
        ["empty", "live", "sandbox"],
    )
    assert listed(runs_out="none") == ["empty"]
    assert listed(runs_out="soon") == []


def test_page_offers_only_what_a_test_token_can_do(admin_client: Client, test_token: ApiToken) -> None:
    text = admin_client.get(page(test_token, "change")).text
    offered = [action for action in ("top-up", "adjust", "rotate", "revoke") if page(test_token, action) in text]
    assert offered == ["rotate", "revoke"]
    assert "out of credits" not in text
    assert 'name="low_balance_at"' not in text
    assert 'name="contact"' not in text
    tokens.revoke(token=test_token)
    text = admin_client.get(page(test_token, "change")).text
    assert not [action for action in ("top-up", "adjust", "rotate", "revoke") if page(test_token, action) in text]


def test_page_shows_the_requests_of_a_test_token(admin_client: Client, test_token: ApiToken) -> None:
    TokenDay.objects.create(token=test_token, day=timezone.now().date(), outcome="test", count=7)
    response = admin_client.get(page(test_token, "change"))
    chart = response.context["chart"]
    assert (chart["legend"], chart["columns"], chart["rows"][-1][1]) == ([("test token", 7)], ["test token"], [7])
    assert response.context["token"].searches_30d == 7
    assert "test token" not in admin_client.get(page(issue_token("live"), "change")).context["chart"]["columns"]


def test_form_changes_neither_mode_nor_threshold(admin_client: Client, test_token: ApiToken) -> None:
    sent = {
        "name": "renamed",
        "note": "n",
        "is_test": "",
        "contact": "a@example.org",
        "low_balance_at": 5,
        "rate_limit": 9,
    }
    assert admin_client.post(page(test_token, "edit"), sent).status_code == 302
    test_token.refresh_from_db()
    assert (test_token.name, test_token.note, test_token.is_test) == ("renamed", "n", True)
    assert test_token.rate_limit == 9
    assert (test_token.contact, test_token.low_balance_at) == ("", None)
    live = issue_token("live")
    assert admin_client.post(page(live, "edit"), {"name": "live", "note": "", "is_test": "on"}).status_code == 302
    live.refresh_from_db()
    assert not live.is_test


def test_topping_up_several_skips_test_tokens(admin_client: Client, test_token: ApiToken) -> None:
    live = issue_token("live", 1)
    assert hidden_fields(select(admin_client, live, test_token))["tokens"] == str(live.pk)
    assert "Select 1 to" in select(admin_client, test_token).text
