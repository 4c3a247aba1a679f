"""Logins are limited by client address and by user name; sessions end when they should."""

import re
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import redis
import requests
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.test import Client, RequestFactory
from django.urls import reverse

from core import attempt_limits
from core.text import MAX_FIELD
from tests.plugin import KEYS
from tests.service import Service

LOGIN = reverse("admin:login")
PASSWORD = "the right one"


@pytest.fixture
def boss(db: None, settings: Any, monkeypatch: pytest.MonkeyPatch) -> User:
    """With a limit of three attempts per hour. The clock stands still, so that no window ends during a test."""
    settings.ADMIN_LOGIN_RATE = (3, 3600)
    monkeypatch.setattr(time, "time", lambda: 1_800_000_000.0)
    return User.objects.create_superuser("boss", password=PASSWORD)


def attempt(name: str = "boss", password: str = "guess", address: str = "192.0.2.1", **meta: Any) -> Any:
    return Client().post(LOGIN, {"username": name, "password": password}, REMOTE_ADDR=address, **meta)


def statuses(attempts: Iterable[Any]) -> list[int]:
    return [each.status_code for each in attempts]


def test_first_login_is_not_welcomed_back(client: Client, db: None) -> None:
    text = client.get(LOGIN).text
    assert "Log in to" in text
    assert "Welcome back" not in text


def test_refused_login_is_told_once(boss: User) -> None:
    text = attempt().text
    assert text.count("Please enter the correct username and password") == text.count("errornote") == 1
    assert "Please correct the error below." in attempt(name="").text


# --- By address and by name --------------------------------------------------------------------------------------


def test_user_name_is_limited_over_all_addresses(boss: User) -> None:
    assert statuses(attempt(address=f"192.0.2.{n}") for n in range(5)) == [200, 200, 200, 429, 429]
    assert attempt("other", address="192.0.2.9").status_code == 200


def test_address_is_limited_over_all_user_names(boss: User) -> None:
    assert statuses(attempt(f"name {n}") for n in range(5)) == [200, 200, 200, 429, 429]
    assert attempt("name 0", address="192.0.2.9").status_code == 200


def test_successful_logins_count_against_the_limit(boss: User) -> None:
    assert statuses(attempt(password=PASSWORD) for _ in range(4)) == [302, 302, 302, 429]


def test_unknown_user_name_is_limited_alike(boss: User) -> None:
    answers = {}
    for name in ("boss", "nobody"):
        tried = [attempt(name, address=f"192.0.2.{n}{len(name)}") for n in range(5)]
        answers[name] = [(each.status_code, re.sub(r"\d+ second|csrf.*?>|value=.*?>", "", each.text)) for each in tried]
    assert answers["boss"] == answers["nobody"]


@pytest.mark.parametrize(
    "spelling",
    ["boss", " boss\t", "ｂｏｓｓ", "𝐛𝐨𝐬𝐬", "\u00a0boss\u3000", "BOSS", "boſs"],
)
def test_spellings_of_a_user_name_share_one_limit(boss: User, spelling: str) -> None:
    assert statuses(attempt(address=f"192.0.2.{n}") for n in range(3)) == [200] * 3
    assert attempt(spelling, address="192.0.2.9").status_code == 429


@pytest.mark.parametrize("name", ["", "x" * MAX_FIELD, "ﷺ" * (MAX_FIELD // 2)])
def test_any_text_as_user_name_is_counted(boss: User, name: str) -> None:
    assert statuses(attempt(name, address=f"192.0.2.{n}") for n in range(4)) == [200, 200, 200, 429]


def test_user_name_that_is_not_utf_8_is_counted(boss: User) -> None:
    def post(address: str) -> Any:
        body = b"username=%ED%A0%80&password=x"
        return Client().post(LOGIN, body, "application/x-www-form-urlencoded", REMOTE_ADDR=address)

    assert statuses(post(f"192.0.2.{n}") for n in range(4)) == [200, 200, 200, 429]


def test_throttled_address_does_not_count_against_user_names(boss: User) -> None:
    for n in range(10):
        attempt(f"name {n}")
    assert statuses(attempt() for _ in range(5)) == [429] * 5
    assert attempt(password=PASSWORD, address="192.0.2.9").status_code == 302


def test_open_session_survives_the_limit_of_its_user_name(boss: User) -> None:
    client = Client()
    client.force_login(boss)
    assert statuses(attempt(address=f"192.0.2.{n}") for n in range(4))[-1] == 429
    assert client.get(reverse("admin:index")).status_code == 200


def test_login_works_again_after_the_window(boss: User, monkeypatch: pytest.MonkeyPatch) -> None:
    assert statuses(attempt() for _ in range(4))[-1] == 429
    later = time.time() + 3601
    monkeypatch.setattr(time, "time", lambda: later)
    assert attempt(password=PASSWORD).status_code == 302


def test_throttled_login_gets_a_page_with_retry_after(boss: User) -> None:
    *_, throttled = [attempt("who knows <b>") for _ in range(4)]
    wait_s = int(throttled["Retry-After"])
    assert 1 <= wait_s <= 3600
    assert throttled["Content-Type"] == "text/html; charset=utf-8"
    assert f"Try again in {wait_s} second" in throttled.text
    assert "Caller ID" in throttled.text
    assert "who knows" not in throttled.text
    assert "no-store" in throttled["Cache-Control"]
    assert Client().get(LOGIN, REMOTE_ADDR="192.0.2.1").status_code == 200


def test_login_without_csrf_token_is_not_counted(boss: User) -> None:
    strict = Client(enforce_csrf_checks=True)
    assert statuses(strict.post(LOGIN, {"username": "boss", "password": PASSWORD}) for _ in range(9)) == [403] * 9
    assert attempt(password=PASSWORD, address="127.0.0.1").status_code == 302


def _seconds_left(value: str) -> int:
    """Of a window of a minute: django-ratelimit derives its end from the checksum of the value."""
    return (zlib.crc32(value.encode()) - int(time.time())) % 60


@pytest.mark.once
@pytest.mark.parametrize(
    ("limited", "instances"),
    [("name", 1), ("name", 2), ("address", 2)],
    ids=["a name, one instance", "a name, two instances", "an address, two instances"],
)
def test_only_10_of_40_concurrent_logins_are_checked(
    serve: Callable[..., Service], request: pytest.FixtureRequest, limited: str, instances: int
) -> None:
    """What is not limited differs in each attempt. The window must not end during the test, so the value is one whose
    window has just begun."""
    environment = {"REDIS_URL": request.getfixturevalue("redis_url")} if instances > 1 else {}
    service = serve(TRUSTED_PROXIES="1", LOG_LEVEL="DEBUG", **environment)
    same = {name: service.env[name] for name in ("CALLERID_DATA_DIR", "DATABASE_URL", *KEYS) if name in service.env}
    services = [service, *(serve(TRUSTED_PROXIES="1", **environment, **same) for _ in range(instances - 1))]
    url = f"{service.url}{LOGIN}"
    form = requests.get(url, headers={"X-Forwarded-Proto": "https"}, timeout=60)
    token = re.search('name="csrfmiddlewaretoken" value="([^"]+)"', form.text)
    assert token
    name = max((f"name {n}" for n in range(100)), key=_seconds_left)
    address = max((f"192.0.2.{n}" for n in range(100)), key=_seconds_left)

    def guess(n: int) -> int:
        data = {
            "csrfmiddlewaretoken": token[1],
            "username": name if limited == "name" else f"other {n}",
            "password": "guess",
        }
        headers = {
            "X-Forwarded-For": address if limited == "address" else f"198.51.100.{n}",
            "X-Forwarded-Proto": "https",
            "Referer": url.replace("http:", "https:"),
            "Cookie": "csrftoken=" + form.cookies["csrftoken"],
            "Host": service.url.removeprefix("http://"),
        }
        to = services[n % instances].url + LOGIN
        return requests.post(to, data, headers=headers, timeout=60).status_code

    with ThreadPoolExecutor(40) as pool:
        assert Counter(pool.map(guess, range(40))) == {200: 10, 429: 30}
    if environment:
        client = redis.Redis.from_url(environment["REDIS_URL"], decode_responses=True)
        keys = client.keys()
        assert keys
        assert not any("name" in key or "192.0.2" in key or "198.51" in key for key in keys)
    assert not [each for each in services if name in each.log()]


def test_user_name_is_cut_before_it_is_normalized() -> None:
    request = RequestFactory().post(LOGIN, {"username": "  " + "½" * 10_000})
    assert attempt_limits.user_name("g", request) == "1⁄2" * attempt_limits.MAX_USER_NAME


# --- Password change and logout ----------------------------------------------------------------------------------


def change_password(client: Client, old: str, new: str = "Another good one") -> Any:
    fields = {"old_password": old, "new_password1": new, "new_password2": new}
    return client.post(reverse("admin:password_change"), fields)


def test_password_change_limits_guesses(boss: User) -> None:
    client = Client()
    client.force_login(boss)
    assert statuses(change_password(client, f"guess {n}") for n in range(5)) == [200, 200, 200, 429, 429]
    assert change_password(client, PASSWORD).status_code == 429
    boss.refresh_from_db()
    assert boss.check_password(PASSWORD)
    assert client.get(reverse("admin:password_change")).status_code == 200
    assert attempt(password=PASSWORD).status_code == 302


def test_own_password_change_is_recorded_and_told(boss: User) -> None:
    client, other = Client(), Client()
    for each in (client, other):
        each.force_login(boss)
    response = change_password(client, PASSWORD)
    assert "Your password was changed." in client.get(response["Location"]).text
    entry = LogEntry.objects.get(content_type__model="user")
    assert (entry.user, entry.object_id, entry.change_message) == (boss, str(boss.pk), "Changed their own password.")
    assert other.get(reverse("admin:index")).status_code == 302


def test_logout_redirects_to_the_login_page(boss: User) -> None:
    client = Client()
    client.force_login(boss)
    assert "You are logged out." in client.post(reverse("admin:logout"), follow=True).text
    assert client.get(reverse("admin:index")).status_code == 302


# --- Cookies -----------------------------------------------------------------------------------------------------


def test_session_cookie_is_http_only_and_lasts_12_hours(boss: User) -> None:
    cookie = attempt(password=PASSWORD).cookies["sessionid"]
    assert (cookie["max-age"], cookie["httponly"], cookie["samesite"]) == (12 * 3600, True, "Lax")
