"""What the services would refuse is shown with the other errors of a form, not after them."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from django.test import Client

from accounts import credits, tokens
from accounts.models import ApiToken, CreditEntry
from tests.account_fixtures import Tills
from tests.accounts.admin.pages import BULK, balance, hidden_fields, issue, page, select, submit

pytestmark = pytest.mark.django_db

LEFT = "Only 10 of your 10 credits in 24 hours are left: enter a smaller amount, or ask an operator."
POSITIVE = "Enter a positive price for added credits, a negative one for removed credits, or 0."
RANGE = f"The balance must stay between 0 and {credits.MAX_BALANCE}."


def errors(response: Any) -> dict[str, list[str]]:
    return {name: list(texts) for name, texts in response.context["form"].errors.items()}


@pytest.fixture
def limited(staff: Callable[..., Client], settings: Any) -> Client:
    settings.SUPPORT_CREDITS_PER_DAY = 10
    return staff(
        *(
            "view_apitoken",
            "top_up_apitoken",
            "adjust_apitoken",
            "add_apitoken",
            "view_creditentry",
            "refund_creditentry",
        )
    )


@pytest.mark.parametrize(
    ("action", "fields", "field", "sentence"),
    [
        ("adjust", {"amount": -5, "price": "3"}, "price", POSITIVE),
        ("adjust", {"amount": 5, "price": "-3"}, "price", POSITIVE),
        ("adjust", {"amount": 0}, "amount", "An adjustment of 0 changes nothing."),
        ("adjust", {"amount": -31}, "amount", RANGE),
        ("move-credits", {"amount": 50}, "amount", "till 1 (#1) has only 30 credits."),
    ],
)
def test_refusal_of_the_service_hides_no_error(
    admin_client: Client, tills: Tills, action: str, fields: dict[str, Any], field: str, sentence: str
) -> None:
    sentence = sentence.replace("#1", f"#{tills[0].pk}")
    shown = errors(submit(admin_client, page(tills[0], action), to_token=tills[1].pk, **fields))
    assert shown.pop(field) == [sentence]
    assert [*shown] == ["reason"]


@pytest.mark.parametrize(
    ("fields", "field", "start"),
    [
        ({"initial_credits": 0, "price": "5"}, "price", POSITIVE),
        (
            {"initial_credits": 0, "is_test": "on", "contact": "desk@example.org"},
            "is_test",
            "A test token has no balance",
        ),
        ({"initial_credits": 5, "is_test": "on"}, "__all__", "A test token has no credits"),
    ],
)
def test_refused_issue_hides_no_error(admin_client: Client, fields: dict[str, Any], field: str, start: str) -> None:
    shown = errors(issue(admin_client, reason="", **fields))
    assert shown.pop(field)[0].startswith(start)
    assert [*shown] == ["reason"]


@pytest.mark.parametrize("action", ["top-up", "adjust"])
def test_used_allowance_hides_no_error(limited: Client, token: ApiToken, action: str) -> None:
    shown = errors(submit(limited, page(token, action), amount=11))
    assert shown == {"amount": [LEFT], "reason": ["Enter a reason or a reference."]}


def test_used_allowance_hides_no_error_of_other_pages(limited: Client, token: ApiToken) -> None:
    assert errors(issue(limited, initial_credits=11, reason=""))["initial_credits"] == [LEFT]
    opened = hidden_fields(select(limited, token))
    assert errors(limited.post(BULK, {**opened, "amount": 11}))["amount"] == [LEFT]
    assert errors(limited.post(BULK, {**opened, "amount": 11})).keys() == {"amount", "reason"}


def test_used_allowance_hides_no_error_of_a_refund(limited: Client, token: ApiToken, settings: Any) -> None:
    settings.SUPPORT_CREDITS_PER_DAY = 0
    search = {"amount": -1, "balance_after": 29, "kind": "search", "request_id": "r"}
    entry = CreditEntry.objects.create(token=token, **search)
    shown = errors(limited.post(f"/admin/accounts/creditentry/{entry.pk}/refund/", {}))
    assert shown.keys() == {"__all__", "reason"}


@pytest.mark.parametrize(("action", "amount"), [("adjust", -30), ("move-credits", 30)])
def test_resubmission_is_not_refused_by_a_new_balance(
    admin_client: Client, tills: Tills, action: str, amount: int
) -> None:
    url = page(tills[0], action)
    fields = {"amount": abs(amount) if action == "move-credits" else amount, "reason": "closed", "confirmed": "on"}
    sent = {**hidden_fields(admin_client.get(url)), **fields, "to_token": tills[1].pk}
    assert [admin_client.post(url, sent).status_code for _ in range(2)] == [302] * 2
    assert balance(tills[0]) == 0


def test_rules_refuse_what_the_services_refuse(token: ApiToken) -> None:
    for amount, price in ((-5, Decimal(3)), (0, None)):
        with pytest.raises(credits.ChangeRefused):
            credits.adjust(token=token, amount=amount, price=price, actor="test", reason="why")
    with pytest.raises(ValueError, match="has no balance"):
        tokens.issue(name="x", actor="test", is_test=True, contact="desk@example.org")
