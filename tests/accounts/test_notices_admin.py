"""The notices' pages: what became of each, and sending again."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from accounts.models import ApiToken, Notice
from tests.accounts.admin_pages import history

pytestmark = pytest.mark.django_db

NOTICES = "/admin/accounts/notice/"
Staff = Callable[..., Client]


def write(token: ApiToken, **values: Any) -> Notice:
    return Notice.objects.create(token=token, threshold=1_500, balance=1_499, **values)


def again(notice: Notice) -> str:
    return f"{NOTICES}{notice.pk}/send-again/"


def states(client: Client) -> list[str]:
    return re.findall(r'<td class="field-state [^>]*>([^<]*)<', client.get(NOTICES).text)


def test_each_state_is_said_in_words(admin_client: Client, token: ApiToken) -> None:
    past, future = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), datetime(2999, 1, 2, 3, 4, 5, tzinfo=UTC)
    for values in (
        {"due_at": past},
        {"due_at": future},
        {"due_at": future, "outcome": "being sent"},
        {"due_at": past, "outcome": "being sent"},
        {"due_at": future, "outcome": "failed: SMTPDataError", "attempts": 1},
        {"due_at": past, "outcome": "failed: SMTPDataError", "attempts": 2},
        {"outcome": "given up", "attempts": 8},
        {"outcome": "sent", "sent_at": past, "attempts": 1},
        {"outcome": "not needed"},
    ):
        write(token, **values)
    assert states(admin_client)[::-1] == [
        "Waits to be sent",
        "Waits until 2999-01-02 03:04:05 UTC",
        "Being sent",
        "Waits to be sent",
        "Failed 1 time, next try 2999-01-02 03:04:05 UTC",
        "Failed 2 times, next try now",
        "Given up, failed 8 times",
        "Sent 2026-01-02 03:04:05 UTC",
        "Not needed any more",
    ]


def test_a_notices_page_shows_its_token_and_its_last_failure(admin_client: Client, token: ApiToken) -> None:
    notice = write(token, due_at=timezone.now(), outcome="failed: SMTPDataError", attempts=1)
    text = admin_client.get(f"{NOTICES}{notice.pk}/change/").text
    for shown in (f"/admin/accounts/apitoken/{token.pk}/change/", "1,500", "1,499", "SMTPDataError", again(notice)):
        assert shown in text
    assert admin_client.get(f"{NOTICES}999/change/").status_code == 302
    assert admin_client.get(f"{NOTICES}x/change/").status_code == 302


def test_a_banner_says_that_notices_are_off(admin_client: Client, token: ApiToken, settings: Any) -> None:
    urls = [NOTICES, f"{NOTICES}{write(token).pk}/change/"]
    assert all("Notices are off" in admin_client.get(url).text for url in urls)
    settings.LOW_BALANCE_NOTICES = True
    assert not any("Notices are off" in admin_client.get(url).text for url in urls)


@pytest.mark.parametrize("way", ["page", "list"])
def test_one_that_was_given_up_is_due_again_at_once(staff: Staff, token: ApiToken, way: str) -> None:
    client = staff("view_notice", "change_notice")
    notice = write(token, outcome="given up", attempts=8)
    before = timezone.now()
    if way == "page":
        assert again(notice) in client.get(f"{NOTICES}{notice.pk}/change/").text
        response = client.post(again(notice))
    else:
        response = client.post(NOTICES, {"action": "send_again", "_selected_action": notice.pk})
    assert response.status_code == 302
    assert "To be sent again: 1." in client.get(NOTICES).text
    notice.refresh_from_db()
    assert (notice.attempts, notice.outcome) == (0, "")
    assert notice.due_at is not None
    assert before <= notice.due_at <= timezone.now()
    assert history() == [("support", "To be sent again.")]


@pytest.mark.parametrize(
    "values",
    [
        {"outcome": "sent", "sent_at": timezone.now()},
        {"outcome": "not needed"},
        {"due_at": timezone.now() + timedelta(minutes=5), "outcome": "being sent"},
        {"due_at": timezone.now() + timedelta(minutes=5)},
    ],
)
def test_only_what_failed_is_sent_again(admin_client: Client, token: ApiToken, values: dict[str, Any]) -> None:
    notice = write(token, **values)
    before = Notice.objects.values().get()
    assert again(notice) not in admin_client.get(f"{NOTICES}{notice.pk}/change/").text
    assert admin_client.post(again(notice)).status_code == 302
    assert "Only what failed or was given up is sent again." in admin_client.get(NOTICES).text
    assert (Notice.objects.values().get(), history()) == (before, [])


def test_of_all_that_are_listed_those_that_failed_are_sent_again_and_none_of_too_many(
    admin_client: Client, token: ApiToken, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = [write(token, outcome="given up", attempts=8) for _ in range(2)]
    settled = write(token, outcome="not needed")
    before = list(Notice.objects.order_by("pk").values())
    everything = {"action": "send_again", "select_across": "1", "_selected_action": settled.pk}
    with monkeypatch.context() as patch:
        patch.setattr("accounts.admin.base.MAX_ACTED_ON", 2)
        refused = admin_client.post(NOTICES, everything, follow=True)
    assert "There are more than 2: select rows one page at a time." in refused.text
    assert (list(Notice.objects.order_by("pk").values()), history()) == (before, [])
    assert "To be sent again: 2." in admin_client.post(NOTICES, everything, follow=True).text
    assert set(Notice.objects.exclude(due_at=None)) == set(failed)


def test_sending_again_needs_the_permission_and_a_post(
    staff: Staff, admin_client: Client, admin_user: User, token: ApiToken
) -> None:
    notice = write(token, outcome="given up", attempts=8)
    before = Notice.objects.values().get()
    assert admin_client.get(again(notice)).status_code == 405
    assert admin_client.post(f"{NOTICES}999/send-again/").status_code == 404
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(admin_user)
    assert strict.post(again(notice)).status_code == 403
    client = staff("view_notice")
    assert client.post(again(notice)).status_code == 403
    client.post(NOTICES, {"action": "send_again", "_selected_action": notice.pk})
    assert again(notice) not in client.get(f"{NOTICES}{notice.pk}/change/").text
    assert "send_again" not in client.get(NOTICES).text
    assert (Notice.objects.values().get(), history()) == (before, [])


def test_nobody_writes_or_deletes_a_notice_by_hand(admin_client: Client, token: ApiToken) -> None:
    notice = write(token)
    for page in ("add", f"{notice.pk}/change", f"{notice.pk}/delete"):
        assert admin_client.post(f"{NOTICES}{page}/", {"balance": 5, "post": "yes"}).status_code == 403
    assert Notice.objects.get().balance == 1_499


def test_the_list_takes_as_many_queries_for_many_rows_as_for_few(admin_client: Client, token: ApiToken) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            assert admin_client.get(NOTICES).status_code == 200
        return len(captured)

    write(token)
    few = queries()
    for _ in range(20):
        write(token)
    assert queries() == few
