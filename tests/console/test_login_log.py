"""The log of logins: who logged in to the console, from where, and who was refused."""

from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from django_otp.util import random_hex

from console import second_factor
from tests import totp
from tests.console.two_factor import LOGIN, NEW_CODES, PASSWORD, REMOVE, VERIFY, change, submit_set_up

LOGGER = "console.login_log"


def attempt(name: str = "boss", password: str = PASSWORD, **meta: Any) -> Client:
    client = Client(REMOTE_ADDR="192.0.2.1")
    client.post(LOGIN, {"username": name, "password": password}, **meta)
    return client


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [f"{record.levelname} {record.getMessage()}" for record in caplog.records if record.name == LOGGER]


@pytest.fixture(autouse=True)
def _all_levels(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", LOGGER)


def test_login_and_logout_are_logged_with_the_address(boss: User, caplog: pytest.LogCaptureFixture) -> None:
    client = attempt()
    assert "logged in" in client.get(reverse("admin:admin_logentry_changelist")).text
    client.post(reverse("admin:logout"))
    assert lines(caplog) == ["INFO login: user=boss address=192.0.2.1", "INFO logout: user=boss address=192.0.2.1"]


def test_failed_login_is_logged_but_not_in_the_history(boss: User, caplog: pytest.LogCaptureFixture) -> None:
    attempt(password="guess")
    attempt(" ｂｏｓｓ", "guess")  # what Django takes for the same name
    assert lines(caplog) == ["WARNING login failed: user=boss address=192.0.2.1"] * 2
    assert not LogEntry.objects.exists()


@pytest.mark.parametrize("name", [PASSWORD, "x" * 1_000, "boss\nlogin: user=boss", ""])
def test_unknown_user_name_is_not_logged(boss: User, caplog: pytest.LogCaptureFixture, name: str) -> None:
    attempt(name, "guess")
    assert set(lines(caplog)) <= {"WARNING login failed: user=- address=192.0.2.1"}
    assert name == "" or name not in caplog.text


def test_inactive_and_non_staff_logins_are_logged(boss: User, caplog: pytest.LogCaptureFixture) -> None:
    User.objects.create_user("olga", password=PASSWORD)
    User.objects.create_user("left", password=PASSWORD, is_staff=True, is_active=False)
    attempt("olga")
    attempt("left")
    assert lines(caplog) == [
        "WARNING login refused, not staff: user=olga address=192.0.2.1",
        "WARNING login failed: user=left address=192.0.2.1",
    ]
    assert not LogEntry.objects.exists()


def test_throttled_attempts_are_logged(boss: User, caplog: pytest.LogCaptureFixture, settings: Any) -> None:
    settings.ADMIN_LOGIN_RATE = (1, 3600)
    attempt(password="guess")
    attempt()
    attempt(PASSWORD)
    assert lines(caplog)[1:] == [
        "WARNING too many attempts: user=boss address=192.0.2.1 what=admin-login",
        "WARNING too many attempts: user=- address=192.0.2.1 what=admin-login",
    ]


def test_programmatic_login_is_not_logged(boss: User, caplog: pytest.LogCaptureFixture) -> None:
    Client().force_login(boss)
    assert lines(caplog) == []
    assert not LogEntry.objects.exists()


# --- Two-factor authentication -----------------------------------------------------------------------------------

AT = "user=boss address=192.0.2.1"


def logins() -> list[str]:
    return list(
        LogEntry.objects.filter(change_message__startswith="Logged in").values_list("user__username", flat=True)
    )


def test_login_without_its_code_is_not_in_the_history(secret: str, caplog: pytest.LogCaptureFixture) -> None:
    client = attempt()
    client.post(VERIFY, {"code": "000000"})
    assert lines(caplog) == [
        f"INFO password accepted, code required: {AT}",
        f"WARNING second factor refused: {AT}",
    ]
    assert not LogEntry.objects.exists()


def test_login_is_in_the_history_once_after_its_code(secret: str, caplog: pytest.LogCaptureFixture) -> None:
    client = attempt()
    client.post(VERIFY, {"code": totp.code(secret)})
    assert lines(caplog)[1:] == [f"INFO second factor accepted: {AT}", f"INFO login: {AT}"]
    assert LogEntry.objects.get().change_message == "Logged in to the console from 192.0.2.1."


def test_new_login_in_a_verified_session_is_complete(secret: str, caplog: pytest.LogCaptureFixture) -> None:
    client = attempt()
    client.post(VERIFY, {"code": totp.code(secret)})
    client.post(LOGIN, {"username": "boss", "password": PASSWORD})
    assert client.get(reverse("admin:index")).status_code == 200
    assert lines(caplog)[-1] == f"INFO login: {AT}"
    assert logins() == ["boss", "boss"]


def test_required_set_up_completes_the_login(boss: User, caplog: pytest.LogCaptureFixture, settings: Any) -> None:
    settings.REQUIRE_2FA = True
    client = attempt()
    assert not LogEntry.objects.exists()
    submit_set_up(client)
    assert lines(caplog) == [
        f"INFO password accepted, code required: {AT}",
        f"INFO second factor set up: {AT}",
        f"INFO second factor accepted: {AT}",
        f"INFO login: {AT}",
    ]
    assert logins() == ["boss"]


def test_second_factor_changes_are_logged(boss: User, caplog: pytest.LogCaptureFixture) -> None:
    client = attempt()
    submit_set_up(client, "guess")
    submit_set_up(client)
    change(client, NEW_CODES)
    change(client, REMOVE, "guess")
    change(client, REMOVE)
    assert lines(caplog) == [
        f"INFO login: {AT}",
        f"WARNING second factor refused: {AT}",
        f"INFO second factor set up: {AT}",
        f"INFO second factor accepted: {AT}",
        f"INFO recovery codes replaced: {AT}",
        f"WARNING second factor refused: {AT}",
        f"INFO second factor removed: {AT}",
    ]
    messages = [entry.get_change_message() for entry in LogEntry.objects.order_by("pk")]
    assert messages == [
        "Logged in to the console from 192.0.2.1.",
        "Set up two-factor authentication.",
        "Replaced the recovery codes.",
        "Removed two-factor authentication.",
    ]


def test_reset_is_logged_with_the_address(boss: User, caplog: pytest.LogCaptureFixture) -> None:
    olga = User.objects.create_user("olga", password=PASSWORD)
    second_factor.unsaved_device(olga, random_hex()).save()
    client, page = attempt(), reverse("admin:auth_user_reset_second_factor", args=[olga.pk])
    for _ in range(2):  # the second finds nothing to reset
        client.post(page)
    assert lines(caplog)[1:] == ["WARNING second factor reset: user=olga by=boss address=192.0.2.1"]
