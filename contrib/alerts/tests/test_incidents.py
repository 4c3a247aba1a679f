"""Incidents open and close once each, however many check them, and alerts arrive by e-mail and signed webhook."""

import base64
import json
from collections.abc import Callable
from datetime import datetime, timedelta
from email.message import EmailMessage
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction
from django.db.models.signals import pre_delete
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from accounts import credits
from contrib.alerts import incidents, notices, webhooks
from contrib.alerts.models import Incident, Notice
from contrib.alerts.tests.low_balances import CONTACT, account, check, search, sent
from core.periods import iso
from core.retention import KEPT_DAYS
from monitoring.health.registry import Condition, Effect
from tests.account_fixtures import Clock
from tests.plugin import ROOT
from tests.servers import free_port
from tests.smtp import Mailbox
from tests.upstream import Upstream, hangs, raw

pytestmark = pytest.mark.django_db

Vendor = Callable[..., Upstream]
KIND, OPS = "source.failing", "ops@example.org"
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
AT_ONCE = {KIND: False}
#: Opens after 5 minutes, and closes after 10: the defaults.
LASTING = {KIND: True}


def failing(subject: str = "twilio", *, effect: Effect = Effect.ALERT) -> Condition:
    return Condition(KIND, subject, f"Source failing: {subject}", "3 of 9 lookups failed.", "Correct it.", effect)


def report(*conditions: Condition, kinds: dict[str, bool] = AT_ONCE) -> tuple[int, int]:
    return incidents.report(conditions=conditions, kinds=kinds, now=timezone.now())


def events() -> list[str]:
    return list(Notice.objects.order_by("pk").values_list("event", flat=True))


@pytest.fixture
def by_email(settings: Any) -> None:
    settings.ALERT_EMAILS = [OPS]


def headers(server: Upstream, index: int = -1) -> dict[str, str]:
    lines = server.heads[index].decode().split("\r\n")[1:]
    return {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}


def test_instance_for_searches_reports_its_alerts(settings: Any, by_email: None) -> None:
    settings.PUBLIC_URL = "https://callerid.example.org"
    page = reverse("admin:alerts_incident_changelist")
    settings.ROOT_URLCONF = "callerid_project.search_urls"
    report(failing())
    (notice,) = Notice.objects.all()
    data = json.loads(notice.payload)["data"]
    assert data["url"] == f"https://callerid.example.org{page}{data['id']}/change/"


# --- Incidents ---------------------------------------------------------------------------------------------------


def test_incident_is_reported_once_and_its_end_once(by_email: None) -> None:
    assert report(failing()) == (1, 0)
    assert [report(failing()), report(failing())] == [(0, 0), (0, 0)]
    assert events() == ["incident.opened"]
    assert report() == (0, 1)
    assert report() == (0, 0)
    assert events() == ["incident.opened", "incident.resolved"]
    assert report(failing()) == (1, 0)
    assert Incident.objects.count() == 2


def test_incident_opens_and_closes_after_its_delays(by_email: None, clock: Clock) -> None:
    minute = timedelta(minutes=1)
    assert report(failing(), kinds=LASTING) == (0, 0)
    assert list(incidents.open_incidents()) == []
    clock.now += 5 * minute - timedelta(seconds=1)
    assert report(failing(), kinds=LASTING) == (0, 0)
    clock.now += minute
    assert report(failing(), kinds=LASTING) == (1, 0)
    clock.now += 9 * minute
    assert report(kinds=LASTING) == (0, 0)
    assert len(incidents.open_incidents()) == 1
    clock.now += minute
    assert report(kinds=LASTING) == (0, 1)
    assert events() == ["incident.opened", "incident.resolved"]


def test_condition_that_nobody_checked_meanwhile_begins_anew(by_email: None, clock: Clock) -> None:
    report(failing(), kinds=LASTING)
    clock.now += timedelta(hours=1)
    assert report(failing(), kinds=LASTING) == (0, 0)
    clock.now += timedelta(minutes=5)
    assert report(failing(), kinds=LASTING) == (1, 0)


def test_line_breaks_of_a_condition_reach_no_header(mailbox: Mailbox, by_email: None) -> None:
    report(Condition(KIND, "twilio", "Source failing:\r\nBcc: x@example.org", "a\nb"))
    assert sent() == ["sent"]
    assert mailbox.messages[0]["Subject"] == "[Caller ID] Source failing: Bcc: x@example.org"
    assert mailbox.messages[0]["Bcc"] is None


def test_condition_below_its_limit_only_keeps_an_incident_open(by_email: None) -> None:
    assert report(failing(effect=Effect.PASSING)) == (0, 0)
    assert Incident.objects.count() == 0
    report(failing())
    assert report(failing(effect=Effect.PASSING)) == (0, 0)
    assert report() == (0, 1)


def test_incident_that_another_checker_opens_is_not_deleted(by_email: None) -> None:
    """One checker no longer sees the condition; the other sees it between that checker's statements."""
    report(failing(), kinds=LASTING)

    def other_checker(**_: Any) -> None:
        pre_delete.disconnect(other_checker, sender=Incident)
        report(failing())

    pre_delete.connect(other_checker, sender=Incident)
    report(kinds=LASTING)
    assert incidents.open_incidents().count() == 1
    assert Notice.objects.get().incident == incidents.open_incidents().get()


def test_open_incident_shows_the_latest_figures(by_email: None) -> None:
    report(failing())
    report(Condition(KIND, "twilio", "Source failing: twilio", "8 of 9 lookups failed."))
    assert Incident.objects.values_list("summary", "hint").get() == ("8 of 9 lookups failed.", "")
    assert "3 of 9" in Notice.objects.get().payload


def test_database_allows_one_open_incident_of_a_condition() -> None:
    now = timezone.now()
    row = {"kind": KIND, "subject": "twilio", "first_seen_at": now, "last_seen_at": now}
    for closed_at in (now, now, None):
        Incident.objects.create(**row, closed_at=closed_at)
    with pytest.raises(IntegrityError), transaction.atomic():
        Incident.objects.create(**row)


def test_notices_are_written_with_the_change_or_not_at_all(by_email: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(**_: Any) -> None:
        raise RuntimeError

    with monkeypatch.context() as patch:
        patch.setattr(notices, "write", fails)
        with pytest.raises(RuntimeError):
            report(failing())
    assert list(incidents.open_incidents()) == []
    assert report(failing()) == (1, 0)


def test_prune_deletes_old_incidents_with_their_notices(by_email: None) -> None:
    for subject in ("old", "new", "open"):
        report(*(failing(name) for name in {subject, "open"}))
    long_ago = timezone.now() - timedelta(days=KEPT_DAYS + 1)
    Incident.objects.exclude(subject="new").update(opened_at=long_ago)
    Incident.objects.filter(subject="old").update(closed_at=long_ago)
    assert incidents.prune() > 0
    assert set(Incident.objects.values_list("subject", flat=True)) == {"new", "open"}
    assert not Notice.objects.filter(payload__contains="old").exists()


def body(message: EmailMessage) -> str:
    """The plain text."""
    return str(message.get_body(("plain",)).get_content()).replace("\r\n", "\n")  # type: ignore[union-attr]


# --- E-mail ------------------------------------------------------------------------------------------------------


def test_emails_say_what_began_and_what_ended(mailbox: Mailbox, by_email: None) -> None:
    report(failing())
    assert sent() == ["sent"]
    report()
    assert sent() == ["sent"]
    opened, resolved = mailbox.messages
    assert (opened["To"], opened["Subject"]) == (OPS, "[Caller ID] Source failing: twilio")
    text = "Source failing: twilio.\n\n3 of 9 lookups failed.\n\nCorrect it.\n\nSeverity: critical\nSince "
    assert body(opened).startswith(text)
    assert body(opened).endswith(" UTC\n")
    assert resolved["Subject"] == "[Caller ID] Resolved: Source failing: twilio"
    text = "This alert has ended.\n\nSource failing: twilio.\n\n3 of 9 lookups failed.\n\nSince "
    assert body(resolved).startswith(text)
    assert "\nUntil 20" in body(resolved)


def test_email_and_webhook_have_the_start_that_pages_show(
    mailbox: Mailbox, by_email: None, by_webhook: Upstream, admin_client: Client, clock: Clock
) -> None:
    began = clock.now
    for _ in range(6):
        report(failing(), kinds=LASTING)
        clock.now += timedelta(minutes=1)
    assert sent() == ["sent", "sent"]
    shown = f"{began:%Y-%m-%d %H:%M}"
    assert body(mailbox.messages[0]).endswith(f"\nSince {shown} UTC\n")
    assert shown in admin_client.get("/admin/alerts/incident/").text
    data = json.loads(by_webhook.bodies[0])["data"]
    assert (data["began_at"], data["opened_at"]) == (iso(began), iso(began + timedelta(minutes=5)))


def test_each_address_gets_its_own_notice(mailbox: Mailbox, settings: Any, by_email: None) -> None:
    settings.ALERT_EMAILS = [OPS, "desk@example.org"]
    report(failing())
    assert sent() == ["sent", "sent"]
    assert sorted(mailbox.recipients()) == ["desk@example.org", OPS]


def test_incident_that_has_ended_is_not_announced_late(
    mailbox: Mailbox, by_email: None, settings: Any, clock: Clock
) -> None:
    port, settings.EMAIL_PORT = settings.EMAIL_PORT, free_port()
    report(failing())
    assert sent() == ["failed"]
    settings.EMAIL_PORT = port
    clock.now += timedelta(minutes=2)
    report()
    assert sorted(sent()) == ["not needed", "sent"]
    assert [message["Subject"] for message in mailbox.messages] == ["[Caller ID] Resolved: Source failing: twilio"]


def test_removed_targets_get_no_more_alerts(
    mailbox: Mailbox, by_email: None, by_webhook: Upstream, settings: Any
) -> None:
    report(failing())
    settings.ALERT_EMAILS, settings.ALERT_WEBHOOK_URLS = [], [f"{by_webhook.url}/another"]
    assert sent() == ["not needed", "not needed"]
    assert (mailbox.messages, by_webhook.bodies) == ([], [])


def test_low_balance_notices_stay_off_while_alerts_are_on(mailbox: Mailbox, by_email: None, settings: Any) -> None:
    search(account(4, 3))
    check()
    settings.LOW_BALANCE_NOTICES = False
    report(failing())
    assert sent() == ["sent"]
    assert mailbox.recipients() == [OPS]


# --- Webhooks ----------------------------------------------------------------------------------------------------


def test_documented_message_is_the_one_that_is_sent(by_webhook: Upstream, settings: Any) -> None:
    settings.PUBLIC_URL = "https://callerid.example.org"
    documented = json.loads(documentation("json"))
    data, seen = documented["data"], {"first_seen_at": timezone.now(), "last_seen_at": timezone.now()}
    Incident.objects.create(pk=data["id"] - 1, kind="x", **seen)
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT setval('monitoring_incident_id_seq', %s)", [data["id"] - 1])
    condition = Condition(KIND, data["subject"], data["title"], data["summary"], data["hint"])
    now = datetime.fromisoformat(documented["timestamp"])
    incidents.report(conditions=[condition], kinds=AT_ONCE, now=now)
    assert sent() == ["sent"]
    assert json.loads(by_webhook.bodies[0]) == documented


def test_documented_code_verifies_a_message(by_webhook: Upstream) -> None:
    code: dict[str, Any] = {}
    exec(documentation("python"), code)
    incidents.write_test_alert()
    sent()
    [body], head = by_webhook.bodies, headers(by_webhook)
    assert code["verify"](SECRET, head, body)
    assert not code["verify"](SECRET, head, body + b" ")
    assert not code["verify"](f"whsec_{base64.b64encode(bytes(32)).decode()}", head, body)
    assert not code["verify"](SECRET, {**head, "webhook-timestamp": "1700000000"}, body)


def documentation(language: str) -> str:
    """The first code block in `language`."""
    page = (ROOT / "docs" / "alerts.md").read_text(encoding="utf-8")
    return page.partition(f"```{language}\n")[2].partition("```")[0]


def test_retry_has_the_same_id_and_body(by_webhook: Upstream, clock: Clock) -> None:
    by_webhook.behave_as(raw(b"secret of the receiver", 500))
    report(failing())
    assert sent() == ["failed"]
    assert Notice.objects.get().outcome == "failed: HTTP 500"
    assert sent() == []
    by_webhook.behave_as(raw(b""))
    clock.now += timedelta(minutes=1)
    report(Condition(KIND, "twilio", "Source failing: twilio", "Now more fail."))
    assert sent() == ["sent"]
    assert by_webhook.bodies[0] == by_webhook.bodies[1]
    first, second = headers(by_webhook, 0), headers(by_webhook, 1)
    assert first["webhook-id"] == second["webhook-id"]
    assert int(second["webhook-timestamp"]) - int(first["webhook-timestamp"]) == 60


def test_receiver_that_is_gone_is_given_up_at_once(by_webhook: Upstream) -> None:
    by_webhook.behave_as(raw(b"", 410))
    report(failing())
    assert sent() == ["given up"]
    assert sent() == []


def test_unreachable_webhook_uses_up_one_attempt(
    by_webhook: Upstream, by_email: None, mailbox: Mailbox, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhooks, "TIMEOUT_S", 0.2)
    by_webhook.behave_as(hangs)
    report(failing("twilio"))
    report(failing("twilio"), failing("trestle"))
    assert sorted(sent()) == ["failed", "sent", "sent"]
    hooks = Notice.objects.filter(channel="webhook").order_by("pk")
    assert list(hooks.values_list("attempts", "outcome")) == [
        (1, "failed: the response did not arrive within 0.2 s"),
        (0, ""),
    ]
    assert len(mailbox.messages) == 2


def test_neither_url_nor_secret_is_logged_or_stored(
    by_webhook: Upstream, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level("DEBUG")
    by_webhook.behave_as(raw(b"secret of the receiver", 400))
    report(failing())
    assert sent() == ["failed"]
    assert f"notice not sent: id={Notice.objects.get().pk} channel=webhook attempt=1 HTTP 400" in caplog.text
    output = caplog.text + str(Notice.objects.values().get()) + "".join(capfd.readouterr())
    assert not any(secret in output for secret in ("path-is-secret", SECRET[6:], "secret of the receiver"))


# --- Low-balance notices by webhook -------------------------------------------------------------------------------


def test_webhook_gets_low_balances_too(by_webhook: Upstream, mailbox: Mailbox) -> None:
    token = account(4, 3)
    search(token, 2)
    assert sent() == ["sent", "sent"]
    assert mailbox.recipients() == [CONTACT]
    [body] = map(json.loads, by_webhook.bodies)
    assert (body["type"], body["data"]) == ("balance.low", {"token_id": token.pk, "balance": 3, "threshold": 3})
    assert "pbx" not in by_webhook.bodies[0].decode()


def test_webhook_gets_low_balances_of_tokens_without_contact(by_webhook: Upstream, mailbox: Mailbox) -> None:
    search(account(4, 3, contact=""))
    credits.adjust(token=account(4, 3, contact=""), amount=-1, actor="op", reason="mistake")
    assert sorted(sent()) == ["not needed", "not needed", "sent", "sent"]
    assert (mailbox.messages, len(by_webhook.bodies)) == ([], 2)


def test_webhook_does_not_wait_for_the_mail_server(by_webhook: Upstream, mailbox: Mailbox, settings: Any) -> None:
    settings.EMAIL_PORT = free_port()
    for _ in range(3):
        search(account(4, 3))
    assert sorted(sent()) == ["failed", "sent", "sent", "sent"]
    assert len(by_webhook.bodies) == 3


def test_email_that_is_retried_causes_no_second_webhook(by_webhook: Upstream, mailbox: Mailbox, clock: Clock) -> None:
    mailbox.refuse["RCPT"] = "450 later"
    search(account(4, 3))
    assert sorted(sent()) == ["failed", "sent"]
    mailbox.refuse.clear()
    notices.send_again(Notice.objects.all())
    assert sent() == ["sent"]
    assert len(by_webhook.bodies) == 1
