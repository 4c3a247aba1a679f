"""Low-balance notices: a transactional outbox, written with the change of the balance and sent by `send_notices`.

No request waits for a mail server. A sender claims a notice for CLAIM before it sends it, so that two senders share the
work. One that dies after the mail server accepted a notice and before it recorded that causes a second e-mail: each
notice is sent at least once.
"""

import logging
from collections.abc import Iterator
from datetime import datetime, timedelta
from smtplib import SMTPServerDisconnected

from django.conf import settings
from django.core.mail import EmailMessage, get_connection
from django.db import connection, transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from accounts.models import ApiToken, CustomerContact, Notice
from core.db import run
from core.retention import delete_in_batches, oldest_kept

log = logging.getLogger(__name__)

CLAIM = timedelta(minutes=10)
#: The wait after the n-th failure; the failure after the last one is final.
BACK_OFF = tuple(timedelta(minutes=minutes) for minutes in (1, 5, 15, 60, 240, 720, 1440))
#: The timeout of the mail server.
TIMEOUT_S = 20
#: The `outcome` while a sender has claimed it; for CLAIM at most, if that sender dies.
SENDING = "being sent"
GIVEN_UP = "given up"
#: Failed notices, without those that are being sent.
FAILED = Q(sent_at=None) & (Q(outcome=GIVEN_UP) | Q(outcome__startswith="failed"))


#: The low-balance rule: a notice is due when a change takes the balance from above the threshold down to it or below.
#: The token's contact is notified, or else those of its customer. `{debited}`: the token after the change. Parameters:
#: created_at, due_at, the change, whether notices are on.
WRITE_IF_LOW = """
INSERT INTO accounts_notice (token_id, threshold, balance, created_at, due_at, attempts, outcome)
SELECT id, low_balance_at, credits, %s, %s, 0, '' FROM {debited}
WHERE credits <= low_balance_at AND low_balance_at < credits - %s AND (contact <> '' OR EXISTS (
    SELECT 1 FROM accounts_customercontact AS notified
    WHERE notified.customer_id = {debited}.customer_id AND notified.low_balance
)) AND %s
"""
_WRITE_IF_TOKEN_LOW = WRITE_IF_LOW.format(debited="accounts_apitoken") + "AND id = %s"


def write_if_low(*, token_id: int, change: int, at: datetime) -> None:
    """Write a notice if `change` (signed, already in the balance) took the balance down to the token's threshold.

    On PostgreSQL a search's debit does the same within its own statement, by WRITE_IF_LOW.
    """
    if settings.LOW_BALANCE_NOTICES:
        now = connection.ops.adapt_datetimefield_value(at)
        run(_WRITE_IF_TOKEN_LOW, [now, now, change, True, token_id])


def send_due() -> Iterator[str]:
    """Send the notices that are due, the oldest first, and yield each outcome: `sent`, `not needed`, `failed` or
    `given up`.

    Stops when the mail server is unavailable: every other notice would wait for the timeout and use up an attempt.
    """
    while (notice := claim_next(timezone.now())) is not None:
        outcome, server_unavailable = _send(notice)
        yield outcome
        if server_unavailable:
            return


def claim_next(now: datetime) -> Notice | None:
    """The oldest notice that is due, claimed, or None.

    The attempt is counted here, so that a notice that kills its sender every time is given up too.
    """
    with transaction.atomic():
        due = Notice.objects.select_for_update(skip_locked=True).filter(due_at__lte=now).order_by("due_at", "pk")
        notice = due.first()
        if notice is not None:
            notice.due_at, notice.outcome, notice.attempts = now + CLAIM, SENDING, notice.attempts + 1
            notice.save(update_fields=["due_at", "outcome", "attempts"])
    return notice


def _send(notice: Notice) -> tuple[str, bool]:
    """The outcome, and whether the mail server is unavailable."""
    token = ApiToken.objects.get(pk=notice.token_id)
    to = recipients(token)
    if not to or token.revoked_at is not None or token.credits > notice.threshold:
        return _settle(notice, "not needed"), False
    if notice.attempts > len(BACK_OFF) + 1:
        return _settle(notice, GIVEN_UP), False
    unavailable = True
    try:
        with get_connection(timeout=TIMEOUT_S) as server:  # closed even when the login fails
            unavailable = False
            server.send_messages([message(token, notice, to)])
    except Exception as error:  # its text may contain the address, so only its type is logged
        unavailable = unavailable or isinstance(error, TimeoutError | SMTPServerDisconnected)
        log.warning("notice not sent: token=%d attempt=%d %s", token.pk, notice.attempts, type(error).__name__)
        if notice.attempts > len(BACK_OFF):
            return _settle(notice, GIVEN_UP), unavailable
        notice.due_at = timezone.now() + BACK_OFF[notice.attempts - 1]
        notice.outcome = f"failed: {type(error).__name__}"[:100]
        notice.save(update_fields=["due_at", "outcome"])
        return "failed", unavailable
    notice.sent_at = timezone.now()
    return _settle(notice, "sent"), False


def _settle(notice: Notice, outcome: str) -> str:
    notice.due_at, notice.outcome = None, outcome
    notice.save(update_fields=["due_at", "sent_at", "outcome"])
    return outcome


def send_again(chosen: QuerySet[Notice]) -> list[Notice]:
    """Make those of `chosen` that failed or were given up due now, with all attempts; returns them."""
    with transaction.atomic():
        failed = list(chosen.select_for_update().filter(FAILED))
        Notice.objects.filter(pk__in=[notice.pk for notice in failed]).update(
            due_at=timezone.now(), attempts=0, outcome=""
        )
    return failed


def prune() -> int:
    """Delete settled notices older than KEPT_DAYS; returns how many."""
    return delete_in_batches(Notice.objects.filter(due_at=None, created_at__lt=oldest_kept()), 5_000)


def recipients(token: ApiToken) -> list[str]:
    """The token's contact or, if it has none, the contacts of its customer that get low-balance notices."""
    if token.contact:
        return [token.contact]
    contacts = CustomerContact.objects.filter(customer=token.customer_id, low_balance=True)
    return list(contacts.order_by("pk").values_list("email", flat=True))


def message(token: ApiToken, notice: Notice, to: list[str]) -> EmailMessage:
    """Plain text with the token's name and balance, and no secret. Names have no line break: tokens.clean_name."""
    return EmailMessage(
        subject=f"Low balance: {token.name}",
        body=(
            f'The balance of the API token "{token.name}" fell to {notice.balance} credits on '
            f"{notice.created_at:%Y-%m-%d at %H:%M} UTC. It has {token.credits} now.\n\n"
            "A search costs one credit; without any left, searches are refused with 403.\n"
        ),
        to=to,
    )
