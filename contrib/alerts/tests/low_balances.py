"""Tokens with a low-balance threshold, for the tests of notices."""

from django.utils import timezone

from accounts import tokens
from accounts.models import ApiToken
from contrib.alerts import low_balance, notices
from tests import awaited
from tests.accounts.admin.pages import NUMBER

CONTACT = "ops-person@example.org"


def account(balance: int, threshold: int | None, contact: str = CONTACT, name: str = "pbx") -> ApiToken:
    token = tokens.issue(name=name, initial_credits=balance, actor="test").token
    ApiToken.objects.filter(pk=token.pk).update(low_balance_at=threshold, contact=contact)
    return ApiToken.objects.get(pk=token.pk)


def search(token: ApiToken, how_many: int = 1) -> None:
    for _ in range(how_many):
        awaited.charge(token=token, request_id="r", number=NUMBER, answer={})


def check() -> None:
    """Write the notices of low balances, as `send_notices` does first."""
    low_balance.write_notices(timezone.now())


def sent() -> list[str]:
    """What becomes of all notices that are due, after a check."""
    check()
    return list(notices.send_due())
