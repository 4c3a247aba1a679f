"""The pages of notices: their states, and sending failed ones again."""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from accounts.models import ApiToken
from contrib.alerts import incidents
from contrib.alerts.models import Notice
from tests.accounts.admin.pages import history
from tests.console_pages import words

pytestmark = pytest.mark.django_db

NOTICES = "/admin/alerts/notice/"
Staff = Callable[..., Client]


def write(token: ApiToken, **values: Any) -> Notice:
    return Notice.objects.create(token=token, threshold=1_500, balance=1_499, **values)


def send_again(client: Client, *chosen: Notice) -> str:
    """The text of the list after the action."""
    selected = {"action": "send_selected_again", "_selected_action": [notice.pk for notice in chosen]}
    return client.post(NOTICES, selected, follow=True).text


def states(client: Client) -> list[str]:
    return [words(cell) for cell in re.findall(r'<td class="field-state [^>]*>(.*?)</td>', client.get(NOTICES).text)]


def test_each_state_is_described(admin_client: Client, token: ApiToken) -> None:
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
        "Queued",
        "Queued until 2999-01-02 03:04:05 UTC",
        "Sending",
        "Queued",
        "Failed after 1 attempt, next attempt 2999-01-02 03:04:05 UTC",
        "Failed after 2 attempts, next attempt now",
        "Given up after 8 attempts",
        "Sent 2026-01-02 03:04:05 UTC",
        "No longer needed",
    ]


def test_page_shows_the_token_and_the_last_failure(admin_client: Client, token: ApiToken) -> None:
    notice = write(token, due_at=timezone.now(), outcome="failed: SMTPDataError", attempts=1)
    text = admin_client.get(f"{NOTICES}{notice.pk}/change/").text
    for shown in (f"/admin/accounts/apitoken/{token.pk}/change/", "1,500", "1,499", "SMTPDataError"):
        assert shown in text
    assert admin_client.get(f"{NOTICES}999/change/").status_code == 302
    assert admin_client.get(f"{NOTICES}x/change/").status_code == 302


def test_email_about_an_alert_is_shown_as_it_was_sent(admin_client: Client, settings: Any) -> None:
    settings.ALERT_EMAILS, settings.ALERT_WEBHOOK_URLS = ["ops@example.org"], ["https://hooks.example.org/alerts"]
    incidents.write_test_alert()
    webhook, email = Notice.objects.order_by("-channel")
    text = admin_client.get(f"{NOTICES}{email.pk}/change/").text
    assert "Subject: [Caller ID] Test alert\n\nTest alert.\n\nAlerts of this service arrive here." in text
    assert "opened_at" in admin_client.get(f"{NOTICES}{webhook.pk}/change/").text
    Notice.objects.filter(pk=email.pk).update(event="balance.low", payload='{"data": {"token_id": 7}}')
    assert "API token #7" in admin_client.get(f"{NOTICES}{email.pk}/change/").text


@pytest.mark.parametrize("alerts", [False, True])
def test_banner_shows_when_low_balance_notices_are_off(admin_client: Client, settings: Any, alerts: bool) -> None:
    settings.ALERT_EMAILS = ["ops@example.org"] if alerts else []
    assert "Low-balance notices are off" in admin_client.get(NOTICES).text
    settings.LOW_BALANCE_NOTICES = True
    assert "notices are off" not in admin_client.get(NOTICES).text


def test_failed_notice_is_due_again_immediately(staff: Staff, token: ApiToken) -> None:
    notice, before = write(token, outcome="given up", attempts=8), timezone.now()
    assert "Queued to be sent again: 1." in send_again(staff("view_notice", "change_notice"), notice)
    notice.refresh_from_db()
    assert (notice.attempts, notice.outcome) == (0, "")
    assert notice.due_at is not None
    assert before <= notice.due_at <= timezone.now()
    assert history() == [("support", "Queued to be sent again.")]


def test_only_failed_notices_are_sent_again(admin_client: Client, token: ApiToken) -> None:
    notice = write(token, outcome="sent", sent_at=timezone.now())
    before = Notice.objects.values().get()
    assert "Only failed notices can be sent again." in send_again(admin_client, notice)
    assert (Notice.objects.values().get(), history()) == (before, [])


def test_select_across_sends_failed_notices_up_to_a_limit(
    admin_client: Client, token: ApiToken, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = [write(token, outcome="given up", attempts=8) for _ in range(2)]
    settled = write(token, outcome="not needed")
    before = list(Notice.objects.order_by("pk").values())
    everything = {"action": "send_selected_again", "select_across": "1", "_selected_action": settled.pk}
    with monkeypatch.context() as patch:
        patch.setattr("core.admin.MAX_SELECTED", 2)
        refused = admin_client.post(NOTICES, everything, follow=True)
    assert "There are more than 2: select rows one page at a time." in refused.text
    assert (list(Notice.objects.order_by("pk").values()), history()) == (before, [])
    assert "Queued to be sent again: 2." in admin_client.post(NOTICES, everything, follow=True).text
    assert set(Notice.objects.exclude(due_at=None)) == set(failed)
