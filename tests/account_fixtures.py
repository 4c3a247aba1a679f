"""Fixtures of the tests of tokens and of their admin pages."""

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.utils import timezone

from accounts import customers, tokens
from accounts.models import ApiToken, CreditEntry
from core.numbers import EXAMPLE_NUMBER
from tests import awaited
from tests.smtp import Mailbox, mail_server


@pytest.fixture
def token(db: None) -> ApiToken:
    """With 30 credits."""
    return tokens.issue(name="pbx", initial_credits=30, actor="test").token


def tokens_of_one_customer(*initial_credits: int) -> list[ApiToken]:
    """Tokens `till 1`, `till 2` and so on with so many credits."""
    owner = customers.create(name="Example Ltd")
    return [
        tokens.issue(name=f"till {number}", initial_credits=amount, customer=owner, actor="test").token
        for number, amount in enumerate(initial_credits, 1)
    ]


#: As of the fixture.
Tills = tuple[ApiToken, ApiToken]


@pytest.fixture
def tills(db: None) -> Tills:
    """Of one customer, with 30 and 5 credits."""
    one, other = tokens_of_one_customer(30, 5)
    return one, other


@pytest.fixture
def search(token: ApiToken) -> CreditEntry:
    """The ledger entry of a search with `token`."""
    awaited.charge(token=token, request_id="req-1", number=EXAMPLE_NUMBER, answer={})
    return token.entries.get(kind="search")


@pytest.fixture
def staff(client: Client, db: None) -> Callable[..., Client]:
    """`staff("view_creditentry", ...)`: logged in, with these permissions and no more."""

    def log_in(*permissions: str) -> Client:
        user = User.objects.create_user("support", password="x", is_staff=True)
        user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
        client.force_login(user)
        return client

    return log_in


@pytest.fixture
def mailbox(settings: Any) -> Iterator[Mailbox]:
    with mail_server() as mailbox:
        settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
        settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", mailbox.port
        settings.DEFAULT_FROM_EMAIL = "callerid@example.org"
        yield mailbox


class Clock:
    def __init__(self) -> None:
        self.now = timezone.now()

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The time, which stands still until a test advances it."""
    clock = Clock()
    monkeypatch.setattr(timezone, "now", clock)
    return clock
