"""The second factor: nothing of the console without it, no code twice, and a way back for whoever has lost the app."""

import re
from base64 import b32encode
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.contrib.auth.password_validation import validate_password
from django.core import signing
from django.core.exceptions import ValidationError
from django.core.management import CommandError, call_command
from django.db import DatabaseError, connection
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from django_otp.plugins.otp_static.models import StaticDevice, StaticToken
from django_otp.plugins.otp_totp.models import TOTPDevice

from accounts.history import command_actor
from callerid_project import second_factor
from tests import totp
from tests.api import Integrator

PASSWORD = "the right one"
INDEX, LOGIN = reverse("admin:index"), reverse("admin:login")
OVERVIEW, VERIFY = reverse("admin:second_factor"), reverse("admin:second_factor_verify")
SET_UP, REMOVE = reverse("admin:second_factor_set_up"), reverse("admin:second_factor_remove")
NEW_CODES = reverse("admin:second_factor_recovery_codes")


@pytest.fixture(autouse=True)
def _generous(settings: Any) -> None:
    settings.ADMIN_LOGIN_RATE = (1000, 3600)
    settings.REQUIRE_2FA = False


@pytest.fixture
def boss(db: None) -> User:
    return User.objects.create_superuser("boss", password=PASSWORD)


@pytest.fixture
def secret(boss: User) -> str:
    """Boss has a device; this is what the app holds."""
    key = second_factor.new_key()
    TOTPDevice.objects.create(user=boss, name="Authenticator app", key=key)
    return b32encode(bytes.fromhex(key)).decode()


def logged_in(name: str = "boss", **query: str) -> Client:
    """After the password."""
    client = Client()
    assert client.post(LOGIN, {"username": name, "password": PASSWORD}, query_params=query).status_code == 302
    return client


def enter(client: Client, code: str, **query: str) -> Any:
    return client.post(VERIFY, {"code": code}, query_params=query)


def verified(secret: str, steps: int = 0) -> Client:
    client = logged_in()
    assert enter(client, totp.code(secret, steps))["Location"] == INDEX
    return client


def is_in(client: Client) -> bool:
    return client.get(INDEX).status_code == 200


def forget_wrong_codes() -> None:
    """As after the wait that wrong codes cost."""
    for device in (TOTPDevice, StaticDevice):
        device.objects.update(throttling_failure_timestamp=timezone.now() - timedelta(days=365))


def set_up(client: Client, **query: str) -> tuple[str, list[str]]:
    """The secret, and the recovery codes that the answer shows."""
    page = client.get(SET_UP, query_params=query).text
    typed = re.search(r'<pre class="console-secret[^>]*>([A-Z2-7 ]+)</pre>', page)
    assert typed
    form = {"secret": hidden(page), "code": totp.code(typed[1]), "password": PASSWORD}
    answer = client.post(SET_UP, form, query_params=query)
    assert "no-store" in answer["Cache-Control"]
    return typed[1], re.findall(r"\b[a-z2-7]{4}(?:-[a-z2-7]{4}){3}\b", answer.text)


def hidden(page: str) -> str:
    found = re.search(r'name="secret" value="([^"]+)"', page)
    assert found
    return found[1]


# --- The code after the password ---------------------------------------------------------------------------------


def test_a_password_alone_opens_no_page(secret: str) -> None:
    client, boss = logged_in(), User.objects.get()
    pages = [
        *("index", "search", "jsi18n", "autocomplete", "password_change", "second_factor", "second_factor_remove"),
        *("second_factor_recovery_codes", "auth_user_changelist", "auth_user_add", "accounts_apitoken_add"),
    ]
    for page in pages:
        for answer in (client.get(reverse(f"admin:{page}")), client.post(reverse(f"admin:{page}"))):
            assert answer["Location"].startswith(LOGIN), page
    asked = client.get(LOGIN, {"next": reverse("admin:auth_user_changelist")})
    assert asked["Location"] == f"{VERIFY}?next=/admin/auth/user/"
    assert User.objects.get() == boss


def test_the_code_leads_to_the_wanted_page(secret: str) -> None:
    wanted = reverse("admin:auth_user_changelist")
    form = {"username": "boss", "password": PASSWORD}
    client = Client()
    at = client.get(wanted)["Location"]
    at = client.post(at, form)["Location"]
    while VERIFY not in at:
        at = client.get(at)["Location"]
    answer = client.post(at, {"code": totp.code(secret)})
    assert answer["Location"] == wanted
    assert client.get(wanted).status_code == 200


@pytest.mark.parametrize("wanted", ["https://example.org/", "//example.org/", "javascript:alert(1)", "/\\example.org"])
def test_the_code_leads_to_no_other_site(secret: str, wanted: str) -> None:
    assert enter(logged_in(), totp.code(secret), next=wanted)["Location"] == INDEX


def test_a_code_verifies_its_own_session_alone(secret: str) -> None:
    here, elsewhere = logged_in(), logged_in()
    enter(here, totp.code(secret))
    assert (is_in(here), is_in(elsewhere)) == (True, False)


def test_the_session_key_changes_with_the_code(secret: str) -> None:
    client = logged_in()
    before = client.cookies["sessionid"].value
    enter(client, totp.code(secret))
    assert client.cookies["sessionid"].value != before
    thief = Client()
    thief.cookies["sessionid"] = before
    assert not is_in(thief)


def test_no_code_is_accepted_twice(secret: str) -> None:
    code = totp.code(secret)
    assert enter(logged_in(), code).status_code == 302
    again = logged_in()
    assert "This code is not valid" in enter(again, code).text
    assert not is_in(again)
    forget_wrong_codes()
    assert enter(again, totp.code(secret, steps=1)).status_code == 302


@pytest.mark.parametrize("code", ["", "000000", "12345", "1234567", "٠٠٠٠٠٠", "+12345", "1_2_3_", "x" * 500, "a\0b"])
def test_a_wrong_code_opens_nothing(secret: str, code: str) -> None:
    client = logged_in()
    if code != totp.code(secret):
        assert enter(client, code).status_code == 200
    assert not is_in(client)


def test_wrong_codes_cost_a_wait_even_for_the_right_one(secret: str) -> None:
    client = logged_in()
    for _ in range(4):
        forget_wrong_codes()
        assert "This code is not valid" in enter(client, "000000").text
    assert re.search(r"Too many wrong codes. Try again in [78] seconds", enter(client, totp.code(secret)).text)
    assert not is_in(client)
    forget_wrong_codes()
    assert enter(client, totp.code(secret)).status_code == 302


def test_codes_are_limited_by_user_and_by_address(secret: str, settings: Any) -> None:
    settings.ADMIN_LOGIN_RATE = (3, 3600)
    clients = [logged_in(), logged_in(), logged_in()]

    def tried(client: Client, address: str) -> int:
        return client.post(VERIFY, {"code": "000000"}, REMOTE_ADDR=address).status_code

    assert [tried(clients[n % 3], f"192.0.2.{n}") for n in range(5)] == [200, 200, 200, 429, 429]
    User.objects.create_superuser("other", password=PASSWORD)
    second_factor.unsaved_device(User.objects.get(username="other"), second_factor.new_key()).save()
    client = Client()
    client.force_login(User.objects.get(username="other"))
    assert [tried(client, "192.0.2.0") for _ in range(3)] == [200, 200, 429]


def test_who_has_no_code_can_log_out(secret: str) -> None:
    client = logged_in()
    assert client.post(reverse("admin:logout")).status_code == 200
    assert client.get(VERIFY)["Location"].startswith(LOGIN)


@pytest.mark.django_db(transaction=True)
def test_of_one_code_sent_at_once_one_is_accepted() -> None:
    boss = User.objects.create_superuser("boss", password=PASSWORD)
    key = second_factor.new_key()
    second_factor.unsaved_device(boss, key).save()
    recovery = second_factor.replace_recovery_codes(boss)[0]
    for code in (totp.code(b32encode(bytes.fromhex(key)).decode()), recovery):
        clients = [logged_in() for _ in range(4)]

        def send(client: Client, code: str = code) -> int:
            try:
                return enter(client, code).status_code
            finally:
                connection.close()

        with ThreadPoolExecutor(len(clients)) as pool:
            assert sorted(pool.map(send, clients)) == [200, 200, 200, 302]


# --- Set-up ------------------------------------------------------------------------------------------------------


def test_who_has_no_device_needs_none_unless_required(boss: User, settings: Any) -> None:
    client = logged_in()
    assert is_in(client)
    settings.REQUIRE_2FA = True
    assert not is_in(client)
    assert client.get(LOGIN, {"next": "/admin/auth/user/"})["Location"] == f"{SET_UP}?next=/admin/auth/user/"


def test_where_required_the_set_up_comes_first(boss: User, settings: Any) -> None:
    settings.REQUIRE_2FA = True
    client = logged_in()
    for page in ("index", "password_change", "second_factor", "accounts_apitoken_add"):
        assert client.get(reverse(f"admin:{page}"))["Location"].startswith(LOGIN)
    assert client.get(VERIFY)["Location"].startswith(SET_UP)
    secret, codes = set_up(client)
    assert len(set(codes)) == 10
    assert is_in(client)
    assert enter(logged_in(), totp.code(secret, steps=1)).status_code == 302


def test_set_up_shows_what_apps_read(boss: User) -> None:
    page = logged_in().get(SET_UP).text
    assert 'src="data:image/svg+xml' in page
    device = second_factor.unsaved_device(boss, "00" * 20)
    assert device.config_url.startswith("otpauth://totp/Caller%20ID%3Aboss?secret=AAAA")


def test_a_wrong_first_code_sets_nothing_up(boss: User) -> None:
    client = logged_in()
    page = client.get(SET_UP).text
    answer = client.post(SET_UP, {"secret": hidden(page), "code": "1", "password": PASSWORD})
    assert "This code is not valid" in answer.text
    assert signing.loads(hidden(answer.text), salt="callerid_project.second_factor_pages") == signing.loads(
        hidden(page), salt="callerid_project.second_factor_pages"
    )
    assert not TOTPDevice.objects.exists()


def test_the_code_of_the_set_up_is_used_up(boss: User) -> None:
    client = logged_in()
    secret, _ = set_up(client)
    assert "This code is not valid" in enter(logged_in(), totp.code(secret)).text


def test_a_secret_that_was_not_shown_is_not_taken(boss: User) -> None:
    User.objects.create_superuser("other", password=PASSWORD)
    theirs = hidden(logged_in("other").get(SET_UP).text)
    typed = b32encode(bytes(20)).decode()
    for secret in ("", "00" * 20, theirs):
        answer = logged_in().post(SET_UP, {"secret": secret, "code": totp.code(typed), "password": PASSWORD})
        assert "This page was open for too long" in answer.text
    assert not TOTPDevice.objects.exists()


def set_up_with(client: Client, password: str | None) -> Any:
    """The response to the right code of a new secret with this password."""
    page = client.get(SET_UP).text
    typed = re.search(r'<pre class="console-secret[^>]*>([A-Z2-7 ]+)</pre>', page)
    assert typed
    form = {"secret": hidden(page), "code": totp.code(typed[1])}
    return client.post(SET_UP, form if password is None else {**form, "password": password})


@pytest.mark.parametrize("required", [False, True])
@pytest.mark.parametrize("password", [None, "", "wrong", f" {PASSWORD}"])
def test_a_session_alone_sets_nothing_up(boss: User, settings: Any, required: bool, password: str | None) -> None:
    client = logged_in()
    settings.REQUIRE_2FA = required
    answer = set_up_with(client, password)
    assert "This password is not correct" in answer.text or "This field is required" in answer.text
    assert not TOTPDevice.objects.exists()
    assert not StaticToken.objects.exists()


def test_a_session_after_a_reset_sets_nothing_up(boss: User) -> None:
    client = logged_in()
    set_up(client)
    call_command("reset_2fa", "boss", stdout=StringIO())
    assert "This password is not correct" in set_up_with(client, "wrong").text
    assert not TOTPDevice.objects.exists()


def test_set_up_and_password_change_share_their_limit(boss: User, settings: Any) -> None:
    client = logged_in()
    settings.ADMIN_LOGIN_RATE = (3, 3600)
    assert [set_up_with(client, f"guess {n}").status_code for n in range(2)] == [200, 200]
    form = {"old_password": "guess", "new_password1": "Another good one", "new_password2": "Another good one"}
    assert client.post(reverse("admin:password_change"), form).status_code == 200
    assert set_up_with(client, PASSWORD).status_code == 429
    assert not TOTPDevice.objects.exists()


def test_a_password_alone_sets_up_no_second_device(secret: str) -> None:
    client = logged_in()
    assert client.get(SET_UP)["Location"] == OVERVIEW
    assert client.get(OVERVIEW)["Location"].startswith(LOGIN)
    boss = User.objects.get()
    with pytest.raises(second_factor.AlreadySetUp):
        second_factor.set_up(boss, key="00" * 20, code=totp.code(b32encode(bytes(20)).decode()))
    assert TOTPDevice.objects.count() == 1


def test_who_is_not_staff_gets_no_set_up(db: None) -> None:
    User.objects.create_user("guest", password=PASSWORD)
    client = Client()
    client.force_login(User.objects.get())
    for page in (SET_UP, VERIFY, OVERVIEW):
        assert client.get(page)["Location"].startswith(LOGIN)
        assert Client().get(page)["Location"].startswith(LOGIN)


# --- Recovery codes and removal ----------------------------------------------------------------------------------


def test_a_recovery_code_logs_in_once(boss: User) -> None:
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


@pytest.mark.parametrize("page", [REMOVE, NEW_CODES])
def test_a_session_alone_changes_nothing(boss: User, page: str) -> None:
    client = logged_in()
    set_up(client)
    stored = set(StaticToken.objects.values_list("token", flat=True))
    for proof in ("", "wrong", "000000"):
        assert client.post(page, {"proof": proof}).status_code == 200
    assert TOTPDevice.objects.count() == 1
    assert set(StaticToken.objects.values_list("token", flat=True)) == stored


def test_a_session_cannot_guess_the_password_there(boss: User, settings: Any) -> None:
    client = logged_in()
    set_up(client)
    settings.ADMIN_LOGIN_RATE = (3, 3600)
    assert [client.post(REMOVE, {"proof": f"guess {n}"}).status_code for n in range(4)] == [200, 200, 200, 429]
    assert client.post(REMOVE, {"proof": PASSWORD}).status_code == 429


def test_new_recovery_codes_end_the_earlier_ones(boss: User) -> None:
    client = logged_in()
    _, codes = set_up(client)
    answer = client.post(NEW_CODES, {"proof": PASSWORD})
    new = re.findall(r"\b[a-z2-7]{4}(?:-[a-z2-7]{4}){3}\b", answer.text)
    assert len(new) == 10
    assert "This code is not valid" in enter(logged_in(), codes[0]).text
    forget_wrong_codes()
    assert enter(logged_in(), new[0]).status_code == 302
    assert is_in(client)


@pytest.mark.parametrize("with_code", [False, True], ids=["password", "recovery code"])
def test_a_removed_device_verifies_no_session(boss: User, settings: Any, with_code: bool) -> None:
    client = logged_in()
    secret, codes = set_up(client)
    elsewhere = verified(secret, steps=1)
    settings.REQUIRE_2FA = True
    assert client.post(REMOVE, {"proof": codes[0] if with_code else PASSWORD})["Location"] == OVERVIEW
    assert (is_in(client), is_in(elsewhere)) == (False, False)
    assert not TOTPDevice.objects.exists()
    assert not StaticToken.objects.exists()


def test_what_a_user_does_stands_in_the_history(boss: User) -> None:
    client = logged_in()
    set_up(client)
    client.post(NEW_CODES, {"proof": PASSWORD})
    client.post(REMOVE, {"proof": PASSWORD})
    said = [entry.get_change_message() for entry in LogEntry.objects.filter(user=boss).order_by("pk")]
    assert said[-3:] == ["Set up the second factor.", "Replaced the recovery codes.", "Removed the second factor."]


# --- Reset -------------------------------------------------------------------------------------------------------


@pytest.fixture
def operator(db: None) -> User:
    user = User.objects.create_user("olga", password=PASSWORD, is_staff=True)
    second_factor.unsaved_device(user, second_factor.new_key()).save()
    second_factor.replace_recovery_codes(user)
    return user


def test_a_superuser_resets_somebody_elses(boss: User, operator: User) -> None:
    client = logged_in()
    reset = reverse("admin:auth_user_reset_second_factor", args=[operator.pk])
    assert reset in client.get(reverse("admin:auth_user_change", args=[operator.pk])).text
    assert client.get(reset).status_code == 200
    assert second_factor.is_set_up(operator)
    assert client.post(reset).status_code == 302
    assert not second_factor.is_set_up(operator)
    assert second_factor.recovery_codes_left(operator) == 0
    entry = LogEntry.objects.get(object_id=str(operator.pk), change_message__contains="second factor")
    assert (entry.user, entry.get_change_message()) == (boss, "Reset the second factor.")
    assert client.post(reset).status_code == 302
    assert LogEntry.objects.filter(object_id=str(operator.pk)).count() == 1


def test_nobody_resets_their_own(boss: User) -> None:
    client = logged_in()
    set_up(client)
    reset = reverse("admin:auth_user_reset_second_factor", args=[boss.pk])
    assert reset not in client.get(reverse("admin:auth_user_change", args=[boss.pk])).text
    assert client.post(reset).status_code == 403
    assert second_factor.is_set_up(boss)


def test_the_command_resets_by_name(operator: User, caplog: pytest.LogCaptureFixture) -> None:
    out = StringIO()
    call_command("reset_2fa", "olga", stdout=out)
    assert out.getvalue() == "The second factor of olga was removed.\n"
    assert f"second factor reset: user=olga by={command_actor()}" in caplog.text
    entry = LogEntry.objects.get()
    assert (entry.user.get_username(), entry.object_id) == (command_actor(), str(operator.pk))
    assert entry.get_change_message() == "Reset the second factor."
    assert not second_factor.is_set_up(operator)
    call_command("reset_2fa", "olga", stdout=out)
    assert "olga has no second factor" in out.getvalue()
    with pytest.raises(CommandError, match="no user with this name"):
        call_command("reset_2fa", "nobody")
    assert LogEntry.objects.count() == 1


def test_who_runs_the_reset_is_not_taken_from_the_environment(
    operator: User, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.setenv(name, "mallory")
    call_command("reset_2fa", "olga", stdout=StringIO())
    assert "mallory" not in caplog.text
    assert not User.objects.filter(username__contains="mallory").exists()


def test_a_reset_without_its_history_row_is_undone(operator: User, monkeypatch: pytest.MonkeyPatch) -> None:
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


# --- Passwords, and who is not asked -----------------------------------------------------------------------------


def test_a_new_password_keeps_the_session_verified(secret: str) -> None:
    client, elsewhere = verified(secret), logged_in()
    new = "Another good one"
    form = {"old_password": PASSWORD, "new_password1": new, "new_password2": new}
    assert client.post(reverse("admin:password_change"), form).status_code == 302
    assert is_in(client)
    assert elsewhere.get(VERIFY)["Location"].startswith(LOGIN)


def test_passwords_have_12_characters_at_least(boss: User) -> None:
    client = logged_in()
    form = {"username": "new", "password1": "Ninety-nine", "password2": "Ninety-nine"}
    assert "at least 12 characters" in client.post(reverse("admin:auth_user_add"), form).text
    assert not User.objects.filter(username="new").exists()
    with pytest.raises(ValidationError):
        validate_password("Ninety-nine")
    validate_password("Ninety-nine!")


def test_the_generated_password_is_a_valid_one(
    db: None, settings: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    create: Callable[..., User] = type(User.objects).create_superuser

    def record(manager: Any, name: str, password: str) -> User:
        made.append(password)
        return create(manager, name, password=password)

    monkeypatch.setattr(type(User.objects), "create_superuser", record)
    settings.DATA_DIR, settings.EMBEDDED = tmp_path, True
    call_command("quickstart", stdout=StringIO())
    validate_password(made[0])


def test_neither_the_api_nor_its_docs_ask_for_a_code(integrator: Integrator, settings: Any) -> None:
    settings.REQUIRE_2FA = True
    answer = integrator.search()
    assert answer.status_code == 200
    assert not hasattr(answer.wsgi_request, "session")
    assert answer.wsgi_request.user is None  # as DRF has set it: no middleware has
    for page in ("/", "/docs", "/schema", "/livez"):
        assert Client().get(page).status_code == 200
