"""Low balances: one notice for each crossing, written with the debit, and sent until the mail server takes it."""

import io
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connections, transaction
from django.db.models import F
from django.utils import timezone

from accounts import audit, credits, notices, tokens
from accounts.models import ApiToken, Notice
from accounts.pruning import KEPT_DAYS
from tests.accounts.admin_pages import NUMBER
from tests.api import claim
from tests.servers import free_port
from tests.smtp import Mailbox, mail_server

pytestmark = pytest.mark.django_db

CONTACT = "ops-person@example.org"
PASSWORD = "correct-horse-battery"


@pytest.fixture
def on(settings: Any) -> None:
    settings.LOW_BALANCE_NOTICES = True


@pytest.fixture
def mailbox(settings: Any, on: None) -> Iterator[Mailbox]:
    with mail_server() as mailbox:
        settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
        settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", mailbox.port
        settings.DEFAULT_FROM_EMAIL = "callerid@example.org"
        yield mailbox


class Clock:
    def __init__(self) -> None:
        self.now = timezone.now()

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The time, which stands until a test moves it."""
    clock = Clock()
    monkeypatch.setattr(timezone, "now", clock)
    return clock


def account(balance: int, threshold: int | None, contact: str = CONTACT, name: str = "pbx") -> ApiToken:
    token = tokens.issue(name=name, initial_credits=balance, actor="test").token
    ApiToken.objects.filter(pk=token.pk).update(low_balance_at=threshold, contact=contact)
    return ApiToken.objects.get(pk=token.pk)


def search(token: ApiToken, how_many: int = 1) -> None:
    for _ in range(how_many):
        credits.charge(token=token, request_id="r", number=NUMBER, answer={})


def written() -> list[tuple[int, int]]:
    """Threshold and balance of each notice."""
    return list(Notice.objects.order_by("pk").values_list("threshold", "balance"))


def sent() -> list[str]:
    return [each.outcome for each in notices.send_due()]


# --- Writing -----------------------------------------------------------------------------------------------------


def test_off_by_default_nothing_is_written() -> None:
    token = account(3, 2)
    search(token, 3)
    credits.top_up(token=token, amount=9, actor="op", reason="paid")
    credits.adjust(token=token, amount=-9, actor="op", reason="mistake")
    assert written() == []


def test_the_debit_that_crosses_writes_one_notice(on: None) -> None:
    token = account(5, 3)
    search(token)
    assert written() == []
    search(token)
    assert written() == [(3, 3)]
    search(token, 3)
    assert written() == [(3, 3)]


@pytest.mark.parametrize(("threshold", "contact"), [(None, CONTACT), (3, ""), (9, CONTACT)])
def test_nothing_is_written_without_threshold_or_contact_or_where_the_balance_was_below_before(
    on: None, threshold: int | None, contact: str
) -> None:
    token = account(5, threshold, contact)
    search(token, 5)
    assert written() == []


def test_a_threshold_of_zero_speaks_of_the_last_credit(on: None) -> None:
    search(account(1, 0))
    assert written() == [(0, 0)]


def test_only_a_new_crossing_writes_again(on: None) -> None:
    token = account(4, 3)
    search(token, 2)
    credits.top_up(token=token, amount=1, actor="op", reason="up to the threshold only")
    search(token)
    assert written() == [(3, 3)]
    credits.top_up(token=token, amount=3, actor="op", reason="above it")
    search(token, 3)
    assert written() == [(3, 3), (3, 3)]


def test_an_adjustment_that_jumps_over_the_threshold_writes_one(on: None) -> None:
    token = account(10, 5)
    credits.adjust(token=token, amount=-8, actor="op", reason="mistake")
    credits.adjust(token=token, amount=-1, actor="op", reason="mistake")
    assert written() == [(5, 2)]


def test_a_refund_writes_none(on: None) -> None:
    token = account(4, 3)
    search(token)
    Notice.objects.all().delete()
    credits.refund(entry=token.entries.get(kind="search"), actor="op", reason="wrong")
    assert written() == []


@pytest.mark.parametrize("idempotency_key", [None, "k"])
def test_a_debit_that_is_rolled_back_takes_its_notice_with_it(on: None, idempotency_key: str | None) -> None:
    token = account(4, 3)
    with transaction.atomic():
        claimed = claim(token, idempotency_key) if idempotency_key else None
        credits.charge(token=token, request_id="r", number=NUMBER, answer={}, claim=claimed)
        assert written() == [(3, 3)]
        transaction.set_rollback(True)
    assert written() == []
    search(token)
    assert written() == [(3, 3)]


def test_the_hand_written_row_says_what_the_orm_would(on: None) -> None:
    search(account(4, 3))
    credits.adjust(token=account(4, 3), amount=-1, actor="op", reason="mistake")
    by_sql, by_orm = Notice.objects.order_by("pk")
    same = [field.attname for field in Notice._meta.concrete_fields]
    for name in ("id", "token_id", "created_at", "due_at"):
        same.remove(name)
    assert {name: getattr(by_sql, name) for name in same} == {name: getattr(by_orm, name) for name in same}
    for notice in (by_sql, by_orm):
        assert notice.due_at == notice.created_at
        assert notice.due_at <= timezone.now()
    assert by_sql.created_at == by_sql.token.entries.get(kind="search").created_at


@pytest.mark.django_db(transaction=True)
def test_debits_at_once_write_one_notice(on: None) -> None:
    token, threads = account(24, 12), 4
    barrier = threading.Barrier(threads)

    def spend(_: int) -> None:
        try:
            barrier.wait(10)
            search(token, 6)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(spend, range(threads)))
    assert written() == [(12, 12)]
    assert audit.audit() == []


# --- Sending -----------------------------------------------------------------------------------------------------


def test_a_notice_is_sent_once_with_name_and_balance_and_no_secret(mailbox: Mailbox) -> None:
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


def test_the_oldest_is_sent_first(mailbox: Mailbox) -> None:
    now = timezone.now()
    for minutes in (1, 3, 2):
        token = account(1, 1, f"{minutes}@example.org")
        Notice.objects.create(token=token, threshold=1, balance=1, due_at=now - timedelta(minutes=minutes))
    assert sent() == ["sent"] * 3
    assert mailbox.recipients() == ["3@example.org", "2@example.org", "1@example.org"]


@pytest.mark.parametrize("obsolete", ["topped up", "revoked", "without contact"])
def test_what_is_no_longer_so_is_not_needed(mailbox: Mailbox, obsolete: str) -> None:
    token = account(4, 3)
    search(token)
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
def test_a_refusal_is_tried_again_later(mailbox: Mailbox, clock: Clock, verb: str, answer: str, named: str) -> None:
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


def test_a_server_that_hangs_has_failed(mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notices, "TIMEOUT_S", 0.2)
    mailbox.hang = True
    search(account(4, 3))
    assert sent() == ["failed"]
    assert Notice.objects.get().outcome in ("failed: TimeoutError", "failed: SMTPServerDisconnected")


def test_a_port_on_which_nobody_listens_has_failed(mailbox: Mailbox, settings: Any) -> None:
    settings.EMAIL_PORT = free_port()
    search(account(4, 3))
    assert sent() == ["failed"]
    assert Notice.objects.get().outcome == "failed: ConnectionRefusedError"


def test_a_server_that_is_away_costs_one_notice_its_attempt_and_the_others_none(
    mailbox: Mailbox, clock: Clock, settings: Any
) -> None:
    port, settings.EMAIL_PORT = settings.EMAIL_PORT, free_port()
    for _ in range(3):
        search(account(4, 3))
    assert sent() == ["failed"]
    assert sorted(Notice.objects.values_list("attempts", flat=True)) == [0, 0, 1]
    settings.EMAIL_PORT = port
    clock.now += timedelta(minutes=1)
    assert sent() == ["sent"] * 3


def test_one_that_ends_its_senders_every_time_is_given_up(mailbox: Mailbox, clock: Clock) -> None:
    search(account(4, 3))
    for _ in range(8):
        assert notices._claim(clock.now) is not None  # and then the process is gone
        clock.now += notices.CLAIM
    assert sent() == ["given up"]
    assert mailbox.messages == []


def test_each_failure_waits_longer_and_the_last_gives_up(mailbox: Mailbox, clock: Clock) -> None:
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


def test_one_that_fails_does_not_hold_up_the_others(mailbox: Mailbox, settings: Any) -> None:
    search(account(4, 3, "not an address\n"))
    search(account(4, 3))
    assert sent() == ["failed", "sent"]
    assert mailbox.recipients() == [CONTACT]


@pytest.mark.django_db(transaction=True)
def test_two_senders_at_once_send_each_notice_once(mailbox: Mailbox) -> None:
    """Two messages are under way at the same moment: the server takes neither before it has both."""
    for n in range(6):
        search(account(4, 3, f"{n}@example.org"))
    mailbox.together = threading.Barrier(2)

    def send(_: int) -> list[str]:
        try:
            return sent()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(2) as pool:
        outcomes = list(pool.map(send, range(2)))
    assert [len(each) for each in outcomes] == [3, 3]
    assert sorted(mailbox.recipients()) == [f"{n}@example.org" for n in range(6)]
    assert not Notice.objects.exclude(outcome="sent").exists()


def test_one_whose_sender_was_killed_is_sent_after_the_claim(
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


def test_only_what_failed_is_sent_again(mailbox: Mailbox, clock: Clock) -> None:
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


def test_pruning_deletes_what_was_settled_long_ago(on: None) -> None:
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


def test_the_command_says_what_became_of_them(mailbox: Mailbox) -> None:
    search(account(4, 3))
    credits.top_up(token=Notice.objects.get().token, amount=9, actor="op", reason="paid")
    search(account(4, 3))
    assert command() == "1 sent, 1 not needed any more, 0 failed and due again later, 0 given up.\n"
    assert json.loads(command("--json")) == {"sent": 0, "not_needed": 0, "failed": 0, "given_up": 0}


def test_the_command_ends_with_an_error_when_one_could_not_be_sent(mailbox: Mailbox) -> None:
    search(account(4, 3))
    mailbox.refuse["RCPT"] = "550 unknown"
    out = io.StringIO()
    with pytest.raises(CommandError, match="did not take all of them"):
        call_command("send_notices", "--json", stdout=out)
    assert json.loads(out.getvalue()) == {"sent": 0, "not_needed": 0, "failed": 1, "given_up": 0}


def test_the_command_says_that_notices_are_off() -> None:
    with pytest.raises(CommandError, match="Notices are off: set LOW_BALANCE_NOTICES=true"):
        command()


@pytest.mark.parametrize("fault", ["RCPT", "AUTH", "DATA"])
def test_neither_address_nor_password_is_logged_or_kept(
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
    assert f"notice not sent: token={Notice.objects.get().token_id} attempt=1 SMTP" in caplog.text
    told = (
        caplog.text
        + out.getvalue()
        + str(raised.value)
        + str(Notice.objects.values().get())
        + "".join(capfd.readouterr())
    )
    assert not any(secret in told for secret in (CONTACT, PASSWORD, "sender@example.org"))
