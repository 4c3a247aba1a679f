"""Low-balance notices are sent until the mail server accepts them or the retries are used up."""

import io
import itertools
import json
import threading
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db.models import F
from django.utils import timezone

from accounts import credits, tokens
from accounts.models import ApiToken
from contrib.alerts import checking, notices
from contrib.alerts.models import Notice
from contrib.alerts.tests.low_balances import CONTACT, account, check, search, sent
from core import mail
from core.retention import KEPT_DAYS
from monitoring import task_runs
from tests.account_fixtures import Clock
from tests.monitoring.concurrency import in_threads
from tests.servers import free_port
from tests.smtp import Mailbox

pytestmark = pytest.mark.django_db

PASSWORD = "correct-horse-battery"
NOTHING = {"sent": 0, "not_needed": 0, "failed": 0, "given_up": 0, "opened": 0, "resolved": 0}


def test_notice_is_sent_once_without_secrets(mailbox: Mailbox) -> None:
    token = account(4, 3, name="Bäckerei Süd")
    search(token, 2)
    assert sent() == ["sent"]
    assert sent() == []
    (message,) = mailbox.messages
    assert (message["To"], message["From"]) == (CONTACT, "callerid@example.org")
    assert message["Subject"] == "Low balance: Bäckerei Süd"
    body = message.get_content()
    assert 'The balance of the API token "Bäckerei Süd" fell to 3 credits on' in body
    assert "It has 2 now." in body
    assert token.jti not in message.as_string()
    notice = Notice.objects.get()
    assert (notice.outcome, notice.due_at, notice.attempts) == ("sent", None, 1)
    assert notice.sent_at is not None


def test_oldest_notice_is_sent_first(mailbox: Mailbox) -> None:
    now = timezone.now()
    for minutes in (1, 3, 2):
        token = account(1, 1, f"{minutes}@example.org")
        Notice.objects.create(token=token, threshold=1, balance=1, due_at=now - timedelta(minutes=minutes))
    assert sent() == ["sent"] * 3
    assert mailbox.recipients() == ["3@example.org", "2@example.org", "1@example.org"]


@pytest.mark.parametrize("obsolete", ["topped up", "revoked", "without contact"])
def test_obsolete_notice_is_not_sent(mailbox: Mailbox, obsolete: str) -> None:
    token = account(4, 3)
    search(token)
    check()
    match obsolete:
        case "topped up":
            credits.top_up(token=token, amount=1, actor="op", reason="paid")
        case "revoked":
            tokens.revoke(token=token)
        case _:
            ApiToken.objects.update(contact="")
    assert sent() == ["not needed"]
    assert (sent(), mailbox.messages) == ([], [])
    assert Notice.objects.get().due_at is None


@pytest.mark.parametrize(
    ("verb", "answer", "named"),
    [
        ("CONNECT", "421 too busy", "SMTPConnectError"),
        ("MAIL", "530 who are you", "SMTPSenderRefused"),
        ("RCPT", f"450 {CONTACT} is full", "SMTPRecipientsRefused"),
        ("RCPT", f"550 {CONTACT} is unknown", "SMTPRecipientsRefused"),
        ("DATA", "554 no thanks", "SMTPDataError"),
    ],
)
def test_refused_notice_is_retried_later(mailbox: Mailbox, clock: Clock, verb: str, answer: str, named: str) -> None:
    search(account(4, 3))
    mailbox.refuse[verb] = answer
    assert sent() == ["failed"]
    notice = Notice.objects.get()
    assert (notice.attempts, notice.outcome, notice.sent_at) == (1, f"failed: {named}", None)
    assert notice.due_at == clock.now + timedelta(minutes=1)
    mailbox.refuse.clear()
    assert sent() == []
    clock.now += timedelta(minutes=1)
    assert sent() == ["sent"]
    assert len(mailbox.messages) == 1


def test_mail_server_timeout_is_a_failure(mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mail, "TIMEOUT_S", 0.2)
    mailbox.hang = True
    search(account(4, 3))
    assert sent() == ["failed"]
    assert Notice.objects.get().outcome in ("failed: TimeoutError", "failed: SMTPServerDisconnected")


def test_unavailable_mail_server_uses_up_one_attempt(mailbox: Mailbox, clock: Clock, settings: Any) -> None:
    port, settings.EMAIL_PORT = settings.EMAIL_PORT, free_port()
    for _ in range(3):
        search(account(4, 3))
    assert sent() == ["failed"]
    assert sorted(Notice.objects.values_list("attempts", flat=True)) == [0, 0, 1]
    settings.EMAIL_PORT = port
    clock.now += timedelta(minutes=1)
    assert sent() == ["sent"] * 3


def test_late_failure_does_not_undo_what_another_sender_sent(
    mailbox: Mailbox, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first sender stops for longer than its claim, such as on a host that was suspended."""
    search(account(4, 3))
    mail, senders = notices.message, itertools.count()

    def first_is_suspended(*given: Any) -> Any:
        if next(senders) == 0:
            clock.now += notices.CLAIM
            assert sent() == ["sent"]
            raise ConnectionResetError
        return mail(*given)

    monkeypatch.setattr(notices, "message", first_is_suspended)
    assert sent() == ["failed"]
    assert (Notice.objects.get().outcome, Notice.objects.get().due_at) == ("sent", None)
    assert len(mailbox.messages) == 1


def test_notice_that_kills_its_senders_is_given_up(mailbox: Mailbox, clock: Clock) -> None:
    search(account(4, 3))
    check()
    for _ in range(8):
        assert notices.claim_next(clock.now) is not None  # and the process dies
        clock.now += notices.CLAIM
    assert sent() == ["given up"]
    assert mailbox.messages == []


def test_retries_back_off_until_given_up(mailbox: Mailbox, clock: Clock) -> None:
    search(account(4, 3))
    mailbox.refuse["RCPT"] = "550 unknown"
    waits = []
    for _ in range(7):
        assert sent() == ["failed"]
        due_at = Notice.objects.values_list("due_at", flat=True).get()
        assert due_at is not None
        waits.append(due_at - clock.now)
        clock.now = due_at - timedelta(microseconds=1)
        assert sent() == []
        clock.now = due_at
    assert [wait / timedelta(minutes=1) for wait in waits] == [1, 5, 15, 60, 240, 720, 1440]
    assert sent() == ["given up"]
    notice = Notice.objects.get()
    assert (notice.outcome, notice.due_at, notice.attempts) == ("given up", None, 8)
    clock.now += timedelta(days=30)
    assert sent() == []


def test_failed_notice_does_not_block_others(mailbox: Mailbox, settings: Any) -> None:
    search(account(4, 3, "not an address\n"))
    search(account(4, 3))
    assert sent() == ["failed", "sent"]
    assert mailbox.recipients() == [CONTACT]


@pytest.mark.django_db(transaction=True)
def test_concurrent_senders_send_each_notice_once(mailbox: Mailbox) -> None:
    """Two messages are sent at the same time: the server accepts neither before it has both."""
    for n in range(6):
        search(account(4, 3, f"{n}@example.org"))
    mailbox.together = threading.Barrier(2)

    outcomes = in_threads(2, sent)
    assert [len(each) for each in outcomes] == [3, 3]
    assert sorted(mailbox.recipients()) == [f"{n}@example.org" for n in range(6)]
    assert not Notice.objects.exclude(outcome="sent").exists()


def test_notice_of_a_killed_sender_is_sent_after_the_claim(
    mailbox: Mailbox, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    search(account(4, 3))

    def killed(*_: Any) -> None:
        raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr(notices, "message", killed)
        with pytest.raises(SystemExit):
            sent()
    assert Notice.objects.get().outcome == "being sent"
    assert (sent(), mailbox.messages) == ([], [])
    clock.now += notices.CLAIM
    assert sent() == ["sent"]
    assert len(mailbox.messages) == 1


def test_only_failed_notices_are_sent_again(mailbox: Mailbox, clock: Clock) -> None:
    token, now = account(1, 3), clock.now
    later = {"due_at": now + timedelta(hours=1), "threshold": 3, "balance": 3, "token": token}
    given_up = Notice.objects.create(**{**later, "due_at": None}, outcome="given up", attempts=8)
    failed = Notice.objects.create(**later, outcome="failed: SMTPDataError", attempts=4)
    for others in ({"outcome": "being sent"}, {"outcome": ""}, {"outcome": "not needed", "due_at": None}):
        Notice.objects.create(**{**later, **others})
    Notice.objects.create(**{**later, "due_at": None}, sent_at=now, outcome="sent")
    assert {notice.pk for notice in notices.send_again(Notice.objects.all())} == {given_up.pk, failed.pk}
    assert sent() == ["sent", "sent"]
    assert Notice.objects.filter(outcome="sent").count() == 3
    assert set(Notice.objects.filter(pk__in=[given_up.pk, failed.pk]).values_list("attempts", flat=True)) == {1}


def test_prune_deletes_old_settled_notices(notices_on: None) -> None:
    long_ago = timezone.now() - timedelta(days=KEPT_DAYS + 1)
    token = account(4, 3)
    for values in ({"created_at": long_ago}, {"created_at": long_ago, "due_at": long_ago}, {}):
        Notice.objects.create(token=token, threshold=3, balance=3, **values)
    assert notices.prune() == 1
    assert Notice.objects.filter(due_at=None).count() == 1
    assert Notice.objects.filter(created_at=F("due_at")).count() == 1


# --- The command -------------------------------------------------------------------------------------------------


def command(*arguments: str) -> str:
    out = io.StringIO()
    call_command("send_notices", *arguments, stdout=out)
    return out.getvalue()


def test_command_prints_the_results(mailbox: Mailbox) -> None:
    token = account(4, 3)
    search(token)
    credits.top_up(token=token, amount=9, actor="op", reason="paid")
    search(account(4, 3))
    assert command() == "1 sent, 1 no longer needed, 0 failed and will be retried, 0 given up.\n"
    assert json.loads(command("--json")) == NOTHING


def test_command_fails_when_a_notice_could_not_be_sent(mailbox: Mailbox) -> None:
    search(account(4, 3))
    mailbox.refuse["RCPT"] = "550 unknown"
    out = io.StringIO()
    with pytest.raises(CommandError, match="did not accept all of them"):
        call_command("send_notices", "--json", stdout=out)
    assert json.loads(out.getvalue()) == {**NOTHING, "failed": 1}


def test_command_fails_when_notices_are_off() -> None:
    task_runs.record(checking.TASK, succeeded=True)
    with pytest.raises(CommandError, match="are off: set LOW_BALANCE_NOTICES=true"):
        command()
    assert task_runs.succeeded_at(checking.TASK) is None  # else an alert would report that the checks have ended


@pytest.mark.parametrize("fault", ["RCPT", "AUTH", "DATA"])
def test_neither_address_nor_password_is_logged_or_stored(
    mailbox: Mailbox, settings: Any, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str], fault: str
) -> None:
    caplog.set_level("DEBUG")
    if fault == "AUTH":
        settings.EMAIL_HOST_USER, settings.EMAIL_HOST_PASSWORD = "sender@example.org", PASSWORD
        mailbox.refuse["EHLO"] = "250 AUTH PLAIN LOGIN"
    mailbox.refuse[fault] = f"535 {CONTACT} {PASSWORD} is refused"
    search(account(4, 3))
    out = io.StringIO()
    with pytest.raises(CommandError) as raised:
        call_command("send_notices", stdout=out)
    assert f"notice not sent: id={Notice.objects.get().pk} channel=email attempt=1 SMTP" in caplog.text
    output = (
        caplog.text
        + out.getvalue()
        + str(raised.value)
        + str(Notice.objects.values().get())
        + "".join(capfd.readouterr())
    )
    assert not any(secret in output for secret in (CONTACT, PASSWORD, "sender@example.org"))
