"""What the login page says to a browser whose session has ended."""

import pytest
from django.conf import settings
from django.contrib.sessions.models import Session
from django.test import Client

from tests.console_pages import words

pytestmark = pytest.mark.django_db

PAGE, LOGIN = "/admin/accounts/apitoken/", "/admin/login/?next=/admin/"
ENDED = "Your session has ended."


def test_first_visit_is_told_nothing(client: Client) -> None:
    assert ENDED not in client.get(PAGE, follow=True).text


def test_ended_session_is_named(client: Client) -> None:
    client.cookies[settings.SESSION_COOKIE_NAME] = "ended"
    assert f"{ENDED} Log in again." in words(client.get(PAGE, follow=True).text)


def test_submission_is_said_to_be_lost_and_not_stored(client: Client) -> None:
    text = words(client.post(PAGE, {"reason": "secret text"}, follow=True).text)
    assert f"{ENDED} What you submitted was not saved. Log in again." in text
    assert "secret text" not in text
    assert not Session.objects.exists()


def test_background_request_of_a_page_says_nothing(client: Client) -> None:
    client.post(PAGE, headers={"Sec-Fetch-Mode": "cors"})
    assert ENDED not in client.get(LOGIN).text


def test_login_ends_what_the_login_page_says(client: Client, admin_user: object) -> None:
    client.post(PAGE)
    assert ENDED in client.post(LOGIN, {"username": "admin", "password": "wrong"}).text
    client.post(LOGIN, {"username": "admin", "password": "password"})
    client.logout()
    assert ENDED not in client.get(LOGIN).text
