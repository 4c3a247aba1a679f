"""Alerts go to the addresses of the console too, each to those that ask for its severity."""

import io
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import IntegrityError, transaction
from django.test import Client
from django.utils import timezone

from contrib.alerts import incidents, notices
from contrib.alerts.models import AlertRecipient, Notice
from monitoring.health.registry import Condition
from tests.account_fixtures import Clock
from tests.accounts.admin.pages import history
from tests.smtp import Mailbox
from tests.upstream import Upstream

pytestmark = pytest.mark.django_db

URL = "/admin/alerts/alertrecipient/"
CRITICAL, WARNING = "source.failing", "data.stale"


@pytest.fixture(autouse=True)
def mail_server_is_set(settings: Any) -> None:
    settings.EMAIL_IS_CONFIGURED, settings.LOW_BALANCE_NOTICES = True, False


def add(email: str, **values: Any) -> AlertRecipient:
    return AlertRecipient.objects.create(email=email, **values)


def report(kind: str = CRITICAL) -> None:
    condition = Condition(kind, "twilio", f"Wrong: {kind}")
    incidents.report(conditions=[condition], kinds={kind: False}, now=timezone.now())


def targets() -> list[str]:
    return list(Notice.objects.order_by("pk").values_list("target", flat=True))


def test_recipients_get_the_severities_they_ask_for(settings: Any) -> None:
    settings.ALERT_EMAILS = ["ops@example.org"]
    add("Ops@example.org")
    add("all@example.org")
    add("critical@example.org", severities="critical")
    add("away@example.org", is_active=False)
    report(WARNING)
    assert targets() == ["ops@example.org", "all@example.org"]
    Notice.objects.all().delete()
    report(CRITICAL)
    assert targets() == ["ops@example.org", "all@example.org", "critical@example.org"]


def test_test_alert_goes_to_every_active_recipient(mailbox: Mailbox) -> None:
    add("critical@example.org", severities="critical")
    add("away@example.org", is_active=False)
    call_command("send_test_alert", stdout=io.StringIO())
    assert mailbox.recipients() == ["critical@example.org"]


@pytest.mark.parametrize("change", [{"is_active": False}, {"severities": "critical"}, {"email": "new@example.org"}])
def test_notice_is_not_sent_to_who_no_longer_gets_it(
    mailbox: Mailbox, settings: Any, change: dict[str, Any], by_webhook: Upstream
) -> None:
    add("desk@example.org")
    report(WARNING)
    AlertRecipient.objects.update(**change)
    assert sorted(notices.send_due()) == ["not needed", "sent"]
    assert (mailbox.messages, len(by_webhook.bodies)) == ([], 1)


def test_recipients_of_the_console_alone_turn_alerts_on(settings: Any, clock: Clock) -> None:
    with pytest.raises(CommandError, match="add an alert recipient"):
        call_command("send_notices")
    add("desk@example.org")
    out = io.StringIO()
    call_command("send_notices", stdout=out)
    assert out.getvalue().startswith("Incidents: ")
    settings.EMAIL_IS_CONFIGURED = False
    with pytest.raises(CommandError, match="off"):
        call_command("send_notices")


def test_failed_notice_logs_no_address(mailbox: Mailbox, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    add("desk@example.org")
    report()
    mailbox.refuse["RCPT"] = "550 desk@example.org is unknown"
    assert list(notices.send_due()) == ["failed"]
    assert "notice not sent" in caplog.text
    assert "desk@" not in caplog.text + Notice.objects.get().outcome


def test_page_lists_what_the_environment_sets(admin_client: Client, settings: Any) -> None:
    settings.ALERT_EMAILS = ["ops@example.org"]
    settings.ALERT_WEBHOOK_URLS = ["https://hooks.example.org/path-is-secret"]
    text = admin_client.get(URL).text
    assert "receive all alerts: ops@example.org, Webhook hooks.example.org (" in text
    assert "path-is-secret" not in text
    assert "Nothing is sent" not in text
    settings.EMAIL_IS_CONFIGURED = False
    assert "Nothing is sent to these addresses." in admin_client.get(URL).text


def test_address_is_added_once_in_any_spelling(admin_client: Client) -> None:
    data = {"email": "desk@example.org", "severities": "critical", "is_active": "on"}
    admin_client.post(f"{URL}add/", data)
    assert (
        "is an alert recipient already" in admin_client.post(f"{URL}add/", {**data, "email": "Desk@example.org"}).text
    )
    assert AlertRecipient.objects.get().severities == "critical"
    assert len(history()) == 1
    with pytest.raises(IntegrityError), transaction.atomic():
        add("DESK@example.org")
