from base64 import b32encode
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db.models import Model
from django.test import Client
from django_otp.util import random_hex

from console import second_factor
from tests.console.console_rows import one_of_each
from tests.console.role_table import ROLES, logged_in
from tests.console.two_factor import PASSWORD
from tests.plugin import of_addons


@pytest.fixture
def optional_second_factor(settings: Any) -> None:
    """Two-factor authentication is not required, and attempts are not limited."""
    settings.ADMIN_LOGIN_RATE = (1000, 3600)
    settings.REQUIRE_2FA = False


@pytest.fixture
def boss(db: None) -> User:
    return User.objects.create_superuser("boss", password=PASSWORD)


@pytest.fixture
def secret(boss: User) -> str:
    """Boss has a device; this is the secret in the app."""
    key = random_hex()
    second_factor.unsaved_device(boss, key).save()
    return b32encode(bytes.fromhex(key)).decode()


@pytest.fixture
def rows(settings: Any) -> dict[str, Model]:
    for name, value in of_addons("CONSOLE_SETTINGS").items():
        setattr(settings, name, value)
    return one_of_each()


@pytest.fixture
def clients() -> dict[str, Client]:
    """A logged-in client for each role."""
    return {role: logged_in(role) for role in ROLES}
