"""Low-balance notices: an outbox, written in the transaction that takes the credit and emptied by `send_notices`.

Nothing is sent inside a request. A notice is claimed for CLAIM before it is sent, so that two senders share the work;
one that dies between the mail server's yes and its own writing of it makes the notice go out twice, never not at all.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from smtplib import SMTPServerDisconnected

from django.conf import settings
from django.core.mail import EmailMessage, get_connection
from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from accounts.models import ApiToken, Notice
from accounts.pruning import KEPT_DAYS, delete_in_chunks

log = logging.getLogger(__name__)

CLAIM = timedelta(minutes=10)
#: After the n-th failure; after the last of them it is given up.
BACK_OFF = tuple(timedelta(minutes=minutes) for minutes in (1, 5, 15, 60, 240, 720, 1440))
#: A mail server that takes longer has failed.
TIMEOUT_S = 20
#: What stands in `outcome` while a sender has it: for CLAIM at most, if that sender dies.
SENDING = "being sent"
GIVEN_UP = "given up"
#: One that a sender has at this moment is not among them.
FAILED = Q(sent_at=None) & (Q(outcome=GIVEN_UP) | Q(outcome__startswith="failed"))


@dataclass(frozen=True, slots=True)
class Sent:
    """What became of one notice: `outcome` is `sent`, `not needed`, `failed` or `given up`. `server_away`: the mail
    server did not answer."""

    notice: Notice
    outcome: str
    server_away: bool = False


def write_if_crossed(token: ApiToken, amount: int) -> None:
    """Write a notice if `amount` (signed, already in `token.credits`) took the balance down to the token's threshold.

    A search's debit does the same in its own statement.
    """
    threshold = token.low_balance_at
    if not (settings.LOW_BALANCE_NOTICES and token.contact and threshold is not None):
        return
    if token.credits <= threshold < token.credits - amount:
        now = timezone.now()
        Notice.objects.create(token=token, threshold=threshold, balance=token.credits, created_at=now, due_at=now)


def send_due() -> Iterator[Sent]:
    """Send what is due, the oldest first, each as it comes. Ends when the mail server is away: each other notice would
    wait for it as long, and use up one of its attempts."""
    while (notice := _claim(timezone.now())) is not None:
        sent = _send(notice)
        yield sent
        if sent.server_away:
            return


def _claim(now: datetime) -> Notice | None:
    """The attempt counts from here on, so that one that ends its sender's process is given up too."""
    with transaction.atomic():
        due = Notice.objects.select_for_update(skip_locked=True).filter(due_at__lte=now).order_by("due_at", "pk")
        notice = due.first()
        if notice is not None:
            notice.due_at, notice.outcome, notice.attempts = now + CLAIM, SENDING, notice.attempts + 1
            notice.save(update_fields=["due_at", "outcome", "attempts"])
    return notice


def _send(notice: Notice) -> Sent:
    token = ApiToken.objects.get(pk=notice.token_id)
    if not token.contact or token.revoked_at is not None or token.credits > notice.threshold:
        return _settle(notice, "not needed")
    if notice.attempts > len(BACK_OFF) + 1:
        return _settle(notice, GIVEN_UP)
    away = True
    try:
        with get_connection(timeout=TIMEOUT_S) as server:  # closed also when it lets us in but not log in
            away = False
            server.send_messages([message(token, notice)])
    except Exception as error:  # whatever a mail server or its library raises; its text may hold the address
        away = away or isinstance(error, TimeoutError | SMTPServerDisconnected)
        log.warning("notice not sent: token=%d attempt=%d %s", token.pk, notice.attempts, type(error).__name__)
        if notice.attempts > len(BACK_OFF):
            return _settle(notice, GIVEN_UP, server_away=away)
        notice.due_at = timezone.now() + BACK_OFF[notice.attempts - 1]
        notice.outcome = f"failed: {type(error).__name__}"[:100]
        notice.save(update_fields=["due_at", "outcome"])
        return Sent(notice, "failed", away)
    notice.sent_at = timezone.now()
    return _settle(notice, "sent")


def _settle(notice: Notice, outcome: str, *, server_away: bool = False) -> Sent:
    notice.due_at, notice.outcome = None, outcome
    notice.save(update_fields=["due_at", "sent_at", "outcome"])
    return Sent(notice, outcome, server_away)


def send_again(chosen: QuerySet[Notice]) -> list[Notice]:
    """Let those of `chosen` that failed or were given up be tried anew, from now on; they are returned."""
    with transaction.atomic():
        failed = list(chosen.select_for_update().filter(FAILED))
        Notice.objects.filter(pk__in=[notice.pk for notice in failed]).update(
            due_at=timezone.now(), attempts=0, outcome=""
        )
    return failed


def prune() -> int:
    """Delete settled ones older than KEPT_DAYS; how many."""
    old = Notice.objects.filter(due_at=None, created_at__lt=timezone.now() - timedelta(days=KEPT_DAYS))
    return delete_in_chunks(old, 5_000)


def message(token: ApiToken, notice: Notice) -> EmailMessage:
    """Plain text, with the token's name and balance and no secret. A name has no line break: tokens.clean_name."""
    return EmailMessage(
        subject=f"Low balance: {token.name}",
        body=(
            f'The balance of the API token "{token.name}" fell to {notice.balance} credits on '
            f"{notice.created_at:%Y-%m-%d at %H:%M} UTC. It has {token.credits} now.\n\n"
            "A search costs one credit; without any left, searches are refused with 403.\n"
        ),
        to=[token.contact],
    )
