"""Fixtures of the tests of tokens and of their admin pages."""

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

from accounts import tokens
from accounts.models import ApiToken


@pytest.fixture
def token(db: None) -> ApiToken:
    """With 30 credits."""
    return tokens.issue(name="pbx", initial_credits=30, actor="test").token


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
def notices_on(settings: Any) -> None:
    settings.LOW_BALANCE_NOTICES = True
