"""Two-factor authentication: recovery codes, removal, reset, passwords, and what needs no code."""

from io import StringIO
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.management import CommandError, call_command
from django.db import DatabaseError
from django.test import Client
from django.urls import reverse
from django_otp.plugins.otp_static.models import StaticDevice, StaticToken
from django_otp.plugins.otp_totp.models import TOTPDevice
from django_otp.util import random_hex

from console import second_factor
from core.history import command_actor
from tests.api import Integrator
from tests.console.two_factor import (
    INDEX,
    LOGIN,
    NEW_CODES,
    OVERVIEW,
    PASSWORD,
    REMOVE,
    VERIFY,
    change,
    enter,
    is_in,
    logged_in,
    recovery_codes,
    reset_wrong_code_delay,
    set_up,
    verified,
)

pytestmark = pytest.mark.usefixtures("optional_second_factor")


# --- Recovery codes and removal ----------------------------------------------------------------------------------


def test_recovery_code_logs_in_once(boss: User) -> None:
    _, codes = set_up(logged_in())
    assert enter(logged_in(), f" {codes[0].upper()} ").status_code == 302
    assert "This code is not valid" in enter(logged_in(), codes[0]).text
    assert second_factor.recovery_codes_left(boss) == 9


def test_recovery_codes_are_stored_as_hashes(boss: User) -> None:
    _, codes = set_up(logged_in())
    stored = set(StaticToken.objects.values_list("token", flat=True))
    assert len(stored) == 10
    assert not stored & {code.replace("-", "") for code in codes}
    assert "This code is not valid" in enter(logged_in(), stored.pop()).text
    assert not LogEntry.objects.filter(change_message__contains=codes[0]).exists()


@pytest.mark.parametrize("action", [REMOVE, NEW_CODES])
def test_changes_need_a_password_or_code(boss: User, action: str) -> None:
    client = logged_in()
    set_up(client)
    stored = set(StaticToken.objects.values_list("token", flat=True))
    for proof in ("", "wrong", "000000"):
        assert change(client, action, proof).status_code == 200
    assert TOTPDevice.objects.count() == 1
    assert set(StaticToken.objects.values_list("token", flat=True)) == stored


def test_changes_limit_password_guesses(boss: User, settings: Any) -> None:
    client = logged_in()
    set_up(client)
    settings.ADMIN_LOGIN_RATE = (3, 3600)
    assert [change(client, REMOVE, f"guess {n}").status_code for n in range(4)] == [200, 200, 200, 429]
    assert change(client, REMOVE).status_code == 429


def test_new_recovery_codes_replace_the_old_ones(boss: User) -> None:
    client = logged_in()
    _, codes = set_up(client)
    new = recovery_codes(change(client, NEW_CODES))
    assert len(new) == 10
    assert "This code is not valid" in enter(logged_in(), codes[0]).text
    reset_wrong_code_delay()
    assert enter(logged_in(), new[0]).status_code == 302
    assert is_in(client)


@pytest.mark.parametrize("with_code", [False, True], ids=["password", "recovery code"])
def test_removed_device_no_longer_verifies_sessions(boss: User, settings: Any, with_code: bool) -> None:
    client = logged_in()
    secret, codes = set_up(client)
    elsewhere = verified(secret, steps=1)
    settings.REQUIRE_2FA = True
    assert change(client, REMOVE, codes[0] if with_code else PASSWORD)["Location"] == OVERVIEW
    assert (is_in(client), is_in(elsewhere)) == (False, False)
    assert not TOTPDevice.objects.exists()
    assert not StaticToken.objects.exists()


# --- Reset -------------------------------------------------------------------------------------------------------


@pytest.fixture
def operator(db: None) -> User:
    user = User.objects.create_user("olga", password=PASSWORD, is_staff=True)
    second_factor.unsaved_device(user, random_hex()).save()
    second_factor.replace_recovery_codes(user)
    return user


def test_superuser_resets_another_user(boss: User, operator: User) -> None:
    client = logged_in()
    reset = reverse("admin:auth_user_reset_second_factor", args=[operator.pk])
    assert reset in client.get(reverse("admin:auth_user_change", args=[operator.pk])).text
    assert client.get(reset).status_code == 200
    assert second_factor.is_set_up(operator)
    assert client.post(reset).status_code == 302
    assert not second_factor.is_set_up(operator)
    assert second_factor.recovery_codes_left(operator) == 0
    assert client.post(reset).status_code == 302  # nothing is left to reset
    entry = LogEntry.objects.get(object_id=str(operator.pk), user=boss)
    assert entry.get_change_message() == "Reset two-factor authentication."


def test_user_cannot_reset_their_own(boss: User) -> None:
    client = logged_in()
    set_up(client)
    reset = reverse("admin:auth_user_reset_second_factor", args=[boss.pk])
    assert reset not in client.get(reverse("admin:auth_user_change", args=[boss.pk])).text
    for url in (reset, reset.replace(f"/{boss.pk}/", f"/0{boss.pk}/")):
        assert (client.get(url).status_code, client.post(url).status_code) == (403, 403)
    assert second_factor.is_set_up(boss)


def test_command_resets_by_user_name(operator: User, caplog: pytest.LogCaptureFixture) -> None:
    out = StringIO()
    call_command("reset_2fa", "olga", stdout=out)
    assert out.getvalue() == "Two-factor authentication of olga was removed.\n"
    assert f"second factor reset: user=olga by={command_actor()}" in caplog.text
    entry = LogEntry.objects.get(user__username=command_actor())
    assert (entry.object_id, entry.get_change_message()) == (str(operator.pk), "Reset two-factor authentication.")
    assert not second_factor.is_set_up(operator)
    call_command("reset_2fa", "olga", stdout=out)
    assert "olga has no two-factor authentication" in out.getvalue()
    with pytest.raises(CommandError, match="no user with this name"):
        call_command("reset_2fa", "nobody")
    assert LogEntry.objects.get(user__username=command_actor()) == entry


def test_reset_without_a_history_entry_is_rolled_back(operator: User, monkeypatch: pytest.MonkeyPatch) -> None:
    def unavailable(**fields: Any) -> None:
        raise DatabaseError

    monkeypatch.setattr(LogEntry.objects, "create", unavailable)
    with pytest.raises(DatabaseError):
        call_command("reset_2fa", "olga", stdout=StringIO())
    assert second_factor.is_set_up(operator)
    assert second_factor.recovery_codes_left(operator) == 10


def test_no_page_shows_another_users_secret(secret: str) -> None:
    assert {TOTPDevice, StaticDevice}.isdisjoint(admin.site._registry)
    client = verified(secret)
    assert "/otp_" not in client.get(INDEX).text
    for page in ("/admin/otp_totp/totpdevice/", "/admin/otp_static/staticdevice/"):
        assert client.get(page).status_code == 404


# --- Passwords, and pages without a code -------------------------------------------------------------------------


def test_new_password_keeps_the_session_verified(secret: str) -> None:
    client, elsewhere = verified(secret), logged_in()
    new = "Another good one"
    form = {"old_password": PASSWORD, "new_password1": new, "new_password2": new}
    assert client.post(reverse("admin:password_change"), form).status_code == 302
    assert is_in(client)
    assert elsewhere.get(VERIFY)["Location"].startswith(LOGIN)


def test_password_needs_12_characters() -> None:
    with pytest.raises(ValidationError):
        validate_password("Ninety-nine")
    validate_password("Ninety-nine!")


def test_api_and_its_docs_need_no_code(integrator: Integrator, settings: Any) -> None:
    settings.REQUIRE_2FA = True
    assert integrator.search().status_code == 200
    for page in ("/", "/docs", "/schema", "/livez"):
        assert Client().get(page).status_code == 200
