"""Two-factor authentication: the code after the password, and setting it up."""

import re
from base64 import b32encode
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core import signing
from django.db import connection
from django.test import Client
from django.urls import reverse
from django_otp.plugins.otp_static.models import StaticToken
from django_otp.plugins.otp_totp.models import TOTPDevice
from django_otp.util import random_hex

from console import second_factor
from tests import totp
from tests.console.two_factor import (
    INDEX,
    LOGIN,
    OVERVIEW,
    PASSWORD,
    SET_UP,
    VERIFY,
    enter,
    hidden,
    is_in,
    logged_in,
    reset_wrong_code_delay,
    set_up,
    submit_set_up,
)

pytestmark = pytest.mark.usefixtures("optional_second_factor")


# --- The code after the password ---------------------------------------------------------------------------------


def test_password_alone_opens_no_page(secret: str) -> None:
    client, boss = logged_in(), User.objects.get()
    pages = [
        *("index", "search", "jsi18n", "autocomplete", "password_change", "second_factor"),
        *("auth_user_changelist", "auth_user_add", "accounts_apitoken_add"),
    ]
    for page in pages:
        for answer in (client.get(reverse(f"admin:{page}")), client.post(reverse(f"admin:{page}"))):
            assert answer["Location"].startswith(LOGIN), page
    response = client.get(LOGIN, {"next": reverse("admin:auth_user_changelist")})
    assert response["Location"] == f"{VERIFY}?next=/admin/auth/user/"
    assert User.objects.get() == boss


def test_code_redirects_to_the_next_page(secret: str) -> None:
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


@pytest.mark.parametrize(
    "wanted",
    [
        *("https://example.org/", "//example.org/", "javascript:alert(1)", "/\\example.org", "///example.org"),
        *("http://[", "admin:index", "auth.User:x", " ", "\x01/", "/" + "x" * 5_000),
    ],
)
def test_code_does_not_redirect_to_another_site(secret: str, wanted: str) -> None:
    assert enter(logged_in(), totp.code(secret), next=wanted)["Location"] == INDEX


@pytest.mark.parametrize("wanted", ["foo", "é", "..", "./", "?x=1", "#", "%", "%0d%0aX: y", "a b", "\r\nX: y"])
def test_odd_next_is_no_error_of_any_page(secret: str, wanted: str) -> None:
    client = logged_in()
    for page in (VERIFY, LOGIN, SET_UP, INDEX):
        assert client.get(page, {"next": wanted}).status_code in (200, 302), page
    assert enter(client, totp.code(secret), next=wanted).status_code == 302
    for page in (VERIFY, LOGIN, SET_UP, INDEX, reverse("admin:logout"), reverse("admin:password_change")):
        assert client.get(page, {"next": wanted}).status_code in (200, 302, 405), page
        assert client.post(page, {"next": wanted}).status_code in (200, 302), page


def test_code_verifies_only_its_own_session(secret: str) -> None:
    here, elsewhere = logged_in(), logged_in()
    enter(here, totp.code(secret))
    assert (is_in(here), is_in(elsewhere)) == (True, False)


def test_session_key_changes_after_the_code(secret: str) -> None:
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
    reset_wrong_code_delay()
    assert enter(again, totp.code(secret, steps=1)).status_code == 302


@pytest.mark.parametrize("code", ["", "000000", "12345", "1234567", "٠٠٠٠٠٠", "+12345", "1_2_3_", "x" * 500])
def test_wrong_code_is_refused(secret: str, code: str) -> None:
    client = logged_in()
    if code != totp.code(secret):
        assert enter(client, code).status_code == 200
    assert not is_in(client)


def test_wrong_codes_delay_even_the_correct_one(secret: str) -> None:
    client = logged_in()
    for _ in range(4):
        reset_wrong_code_delay()
        assert "This code is not valid" in enter(client, "000000").text
    assert re.search(r"Too many wrong codes. Try again in [78] seconds", enter(client, totp.code(secret)).text)
    assert not is_in(client)
    reset_wrong_code_delay()
    assert enter(client, totp.code(secret)).status_code == 302


def test_codes_are_limited_by_user_and_by_address(secret: str, settings: Any) -> None:
    settings.ADMIN_LOGIN_RATE = (3, 3600)
    clients = [logged_in(), logged_in(), logged_in()]

    def tried(client: Client, address: str) -> int:
        return client.post(VERIFY, {"code": "000000"}, REMOTE_ADDR=address).status_code

    assert [tried(clients[n % 3], f"192.0.2.{n}") for n in range(5)] == [200, 200, 200, 429, 429]
    User.objects.create_superuser("other", password=PASSWORD)
    second_factor.unsaved_device(User.objects.get(username="other"), random_hex()).save()
    client = Client()
    client.force_login(User.objects.get(username="other"))
    assert [tried(client, "192.0.2.0") for _ in range(3)] == [200, 200, 429]


def test_user_without_a_code_can_log_out(secret: str) -> None:
    client = logged_in()
    assert client.post(reverse("admin:logout"))["Location"] == LOGIN
    assert client.get(VERIFY)["Location"].startswith(LOGIN)


@pytest.mark.django_db(transaction=True)
def test_concurrent_use_of_one_code_succeeds_once() -> None:
    boss = User.objects.create_superuser("boss", password=PASSWORD)
    key = random_hex()
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


def test_device_is_needed_only_if_required(boss: User, settings: Any) -> None:
    client = logged_in()
    assert is_in(client)
    settings.REQUIRE_2FA = True
    assert not is_in(client)
    assert client.get(LOGIN, {"next": "/admin/auth/user/"})["Location"] == f"{SET_UP}?next=/admin/auth/user/"


def test_required_set_up_comes_before_any_page(boss: User, settings: Any) -> None:
    settings.REQUIRE_2FA = True
    client = logged_in()
    for page in ("index", "password_change", "second_factor", "accounts_apitoken_add"):
        assert client.get(reverse(f"admin:{page}"))["Location"].startswith(LOGIN)
    assert client.get(VERIFY)["Location"].startswith(SET_UP)
    secret, codes = set_up(client)
    assert len(set(codes)) == 10
    assert is_in(client)
    assert enter(logged_in(), totp.code(secret, steps=1)).status_code == 302


def test_set_up_shows_a_qr_code_for_apps(boss: User) -> None:
    page = logged_in().get(SET_UP).text
    assert 'src="data:image/svg+xml' in page
    device = second_factor.unsaved_device(boss, "00" * 20)
    assert device.config_url.startswith("otpauth://totp/Caller%20ID%3Aboss?secret=AAAA")


def test_set_up_says_that_it_is_on(boss: User) -> None:
    _, response = submit_set_up(client := logged_in())
    assert response.text.count("Two-factor authentication is on.") == 1
    assert "Two-factor authentication is on." not in client.get("/admin/").text


def test_wrong_first_code_sets_nothing_up(boss: User) -> None:
    client = logged_in()
    page = client.get(SET_UP).text
    answer = client.post(SET_UP, {"secret": hidden(page), "code": "1", "password": PASSWORD})
    assert "This code is not valid" in answer.text
    assert signing.loads(hidden(answer.text), salt="console.site") == signing.loads(hidden(page), salt="console.site")
    assert not TOTPDevice.objects.exists()


def test_set_up_code_is_not_accepted_again(boss: User) -> None:
    client = logged_in()
    secret, _ = set_up(client)
    assert "This code is not valid" in enter(logged_in(), totp.code(secret)).text


def test_secret_that_was_not_shown_is_refused(boss: User) -> None:
    User.objects.create_superuser("other", password=PASSWORD)
    theirs = hidden(logged_in("other").get(SET_UP).text)
    typed = b32encode(bytes(20)).decode()
    for secret in ("", "00" * 20, theirs):
        answer = logged_in().post(SET_UP, {"secret": secret, "code": totp.code(typed), "password": PASSWORD})
        assert "This page has expired" in answer.text
    assert not TOTPDevice.objects.exists()


@pytest.mark.parametrize("required", [False, True])
@pytest.mark.parametrize("password", [None, "", "wrong", f" {PASSWORD}"])
def test_set_up_needs_the_password(boss: User, settings: Any, required: bool, password: str | None) -> None:
    client = logged_in()
    settings.REQUIRE_2FA = required
    _, answer = submit_set_up(client, password)
    assert "This password is not correct" in answer.text or "This field is required" in answer.text
    assert not TOTPDevice.objects.exists()
    assert not StaticToken.objects.exists()


def test_set_up_and_password_change_share_their_limit(boss: User, settings: Any) -> None:
    client = logged_in()
    settings.ADMIN_LOGIN_RATE = (3, 3600)
    assert [submit_set_up(client, f"guess {n}")[1].status_code for n in range(2)] == [200, 200]
    form = {"old_password": "guess", "new_password1": "Another good one", "new_password2": "Another good one"}
    assert client.post(reverse("admin:password_change"), form).status_code == 200
    assert submit_set_up(client)[1].status_code == 429
    assert not TOTPDevice.objects.exists()


def test_second_device_cannot_be_set_up(secret: str) -> None:
    client = logged_in()
    assert client.get(SET_UP)["Location"] == OVERVIEW
    assert client.get(OVERVIEW)["Location"].startswith(LOGIN)
    boss = User.objects.get()
    with pytest.raises(second_factor.AlreadySetUp):
        second_factor.set_up(boss, key="00" * 20, code=totp.code(b32encode(bytes(20)).decode()))
    assert TOTPDevice.objects.count() == 1


def test_non_staff_cannot_open_the_set_up(db: None) -> None:
    User.objects.create_user("guest", password=PASSWORD)
    client = Client()
    client.force_login(User.objects.get())
    for page in (SET_UP, VERIFY, OVERVIEW):
        assert client.get(page)["Location"].startswith(LOGIN)
        assert Client().get(page)["Location"].startswith(LOGIN)
