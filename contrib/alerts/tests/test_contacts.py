"""The contacts of a customer get the low-balance notices of its tokens without a contact of their own."""

from typing import Any

import pytest

from accounts import credits
from accounts.models import ApiToken
from contrib.alerts.models import Notice
from contrib.alerts.tests.low_balances import check, search, sent
from tests.account_fixtures import Tills
from tests.accounts.test_customers import make, token_of

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("change", ["search", "adjust"])
def test_contacts_of_the_customer_get_the_notice(notices_on: None, change: str, mailoutbox: list[Any]) -> None:
    customer = make("Example Ltd", "owner@example.org", "desk@example.org")
    customer.contacts.create(email="quiet@example.org", low_balance=False)
    token = token_of(customer, low_balance_at=3)
    if change == "search":
        search(token)
    else:
        credits.adjust(token=token, amount=-1, actor="op", reason="mistake")
    assert sent() == ["sent"]
    [message] = mailoutbox
    assert message.to == ["owner@example.org", "desk@example.org"]


def test_contact_of_the_token_comes_before_the_customers(notices_on: None, mailoutbox: list[Any]) -> None:
    search(token_of(make("Example Ltd", "owner@example.org"), low_balance_at=3, contact="own@example.org"))
    assert sent() == ["sent"]
    assert mailoutbox[0].to == ["own@example.org"]


def test_nothing_is_written_if_no_contact_gets_notices(notices_on: None) -> None:
    make("Other Ltd", "other@example.org")
    customer = make()
    customer.contacts.create(email="quiet@example.org", low_balance=False)
    search(token_of(customer, low_balance_at=3))
    search(token_of(None, low_balance_at=3))
    assert sent() == []
    assert not Notice.objects.exists()


@pytest.mark.usefixtures("notices_on")
def test_low_balance_is_noticed_on_the_token_that_gives(tills: Tills) -> None:
    ApiToken.objects.update(low_balance_at=20, contact="till@example.org")
    credits.transfer(from_token=tills[0], to_token=tills[1], amount=20, actor="op", reason="closed")
    check()
    assert list(Notice.objects.values_list("token_id", "balance")) == [(tills[0].pk, 10)]
