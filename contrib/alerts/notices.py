"""The outbox of low-balance notices and alerts, which `send_notices` sends by e-mail and webhook. Alerts are written in
the transaction in which their incident opens or ends, low balances by low_balance.py.

No request waits for a mail server or a receiver. A sender claims a notice for CLAIM before it sends it, so that two
senders share the work. One that dies after a server accepted a notice and before it recorded that causes a second
message: each notice is sent at least once. A webhook's receiver recognizes it by the header `webhook-id`.
"""

import json
import logging
from collections.abc import Collection, Iterable, Iterator
from datetime import datetime, timedelta
from smtplib import SMTPDataError, SMTPRecipientsRefused, SMTPSenderRefused
from typing import Any

from django.conf import settings
from django.core.mail import EmailMessage
from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from accounts.models import ApiToken, CustomerContact
from contrib.alerts import alert_emails, alert_recipients, customer_notices, webhooks
from contrib.alerts.models import Incident, Notice
from core import mail
from core.periods import iso
from core.retention import delete_in_batches, oldest_kept

log = logging.getLogger(__name__)

CLAIM = timedelta(minutes=10)
#: The wait after the n-th failure; the failure after the last one is final.
BACK_OFF = tuple(timedelta(minutes=minutes) for minutes in (1, 5, 15, 60, 240, 720, 1440))
#: How a mail server refuses one message. Its other errors, which are OSErrors too, concern every message.
_REFUSALS = (SMTPDataError, SMTPRecipientsRefused, SMTPSenderRefused)
#: The `outcome` while a sender has claimed it; for CLAIM at most, if that sender dies.
SENDING = "being sent"
GIVEN_UP = "given up"
#: Failed notices, without those that are being sent.
FAILED = Q(sent_at=None) & (Q(outcome=GIVEN_UP) | Q(outcome__startswith="failed"))


def write(
    *,
    event: str,
    data: dict[str, Any],
    at: datetime,
    targets: Iterable[tuple[str, str]],
    incident: Incident | None = None,
) -> list[Notice]:
    """Write a notice to each of `targets` (alert_recipients), due now."""
    message_type = event.replace("incident.", "incidents.") if "incidents" in data else event
    payload = json.dumps({"type": message_type, "timestamp": iso(at), "data": data}, ensure_ascii=False)
    common: Any = {"event": event, "payload": payload, "incident": incident, "created_at": at, "due_at": at}
    return Notice.objects.bulk_create(Notice(channel=channel, target=target, **common) for channel, target in targets)


def send_due() -> Iterator[str]:
    """Send the notices that are due, the oldest first, and yield each outcome: `sent`, `not needed`, `failed` or
    `given up`.

    What goes to a mail server or a webhook that is unavailable is left for the next run: every other notice would wait
    for the timeout and use up an attempt.
    """
    unavailable: set[tuple[str, str]] = set()
    while (notice := claim_next(timezone.now(), unavailable)) is not None:
        outcome, server_unavailable = _send(notice)
        yield outcome
        if server_unavailable:
            # Each webhook has a server of its own.
            unavailable.add((notice.channel, notice.target if notice.channel == Notice.Channel.WEBHOOK else ""))


def pending() -> QuerySet[Notice]:
    """Notices to be sent, now or later."""
    rows = Notice.objects.filter(due_at__isnull=False)
    return rows if settings.LOW_BALANCE_NOTICES else rows.exclude(event=Notice.Event.BALANCE_LOW)


def claim_next(now: datetime, unavailable: Collection[tuple[str, str]] = ()) -> Notice | None:
    """The oldest notice that is due, claimed, or None. Without those to a server in `unavailable`.

    The attempt is counted here, so that a notice that kills its sender every time is given up too.
    """
    due = pending().filter(due_at__lte=now)
    for channel, target in unavailable:
        due = due.exclude(Q(channel=channel) & (Q(target=target) if target else Q()))
    with transaction.atomic():
        notice = due.select_for_update(skip_locked=True).order_by("due_at", "pk").first()
        if notice is not None:
            notice.due_at, notice.outcome, notice.attempts = now + CLAIM, SENDING, notice.attempts + 1
            notice.save(update_fields=["due_at", "outcome", "attempts"])
    return notice


def _send(notice: Notice) -> tuple[str, bool]:
    """The outcome, and whether the server is unavailable."""
    if notice.attempts > len(BACK_OFF) + 1:  # its senders died
        return _settle(notice, GIVEN_UP), False
    try:
        is_sent = _deliver(notice)
    except Exception as error:  # its text may contain an address, so only its type is logged
        unavailable = isinstance(error, OSError | webhooks.WebhookUnreachable) and not isinstance(error, _REFUSALS)
        reason = str(error) if isinstance(error, webhooks.WebhookFailed) else type(error).__name__
        log.warning(
            "notice not sent: id=%d channel=%s attempt=%d %s", notice.pk, notice.channel, notice.attempts, reason
        )
        if notice.attempts > len(BACK_OFF) or isinstance(error, webhooks.WebhookGone):
            return _settle(notice, GIVEN_UP), unavailable
        # Unless another sender has claimed it since, because this one took longer than CLAIM.
        Notice.objects.filter(pk=notice.pk, attempts=notice.attempts).update(
            due_at=timezone.now() + BACK_OFF[notice.attempts - 1], outcome=f"failed: {reason}"[:100]
        )
        return "failed", unavailable
    notice.sent_at = timezone.now() if is_sent else None
    return _settle(notice, "sent" if is_sent else "not needed"), False


def _deliver(notice: Notice) -> bool:
    """Send the notice; False if it is not needed any more."""
    if notice.token_id is not None:  # to a token's contact, or to its customer's webhook
        token = ApiToken.objects.get(pk=notice.token_id)
        if notice.channel == Notice.Channel.WEBHOOK:
            return customer_notices.post(notice, token)
        to = recipients(token)
        if not to or token.revoked_at is not None or token.credits > (notice.threshold or 0):
            return False
        mail.send_email(message(token, notice, to))
        return True
    if notice.incident_id is not None and not _leave_out_outdated(notice):
        return False
    warning = json.loads(notice.payload)["data"].get("severity") == "warning" and notice.event != Notice.Event.TEST
    if (notice.channel, notice.target) not in alert_recipients.targets(critical=not warning):
        return False
    if notice.channel == Notice.Channel.EMAIL:
        mail.send_email(alert_emails.message(notice))
        return True
    webhooks.post(
        url=next(url for url in settings.ALERT_WEBHOOK_URLS if webhooks.label(url) == notice.target),
        secrets=settings.ALERT_WEBHOOK_SECRETS,
        message_id=notice.message_id,
        timestamp=int(timezone.now().timestamp()),
        body=notice.payload.encode(),
    )
    return True


def _leave_out_outdated(notice: Notice) -> bool:
    """Take incidents out of the payload of a notice that is not true any more: those that have ended out of that of an
    opening or a reminder, acknowledged ones out of that of a reminder, and those that are open again out of that of an
    end. False if none is left. A later notice reports what became of them, and must not arrive before this one."""
    payload = json.loads(notice.payload)
    data = payload["data"]
    found = data.get("incidents", [data])
    ids = [each["id"] for each in found]
    over = Q(closed_at__isnull=notice.event == Notice.Event.INCIDENT_RESOLVED)
    if notice.event == Notice.Event.INCIDENT_REMINDER:
        over |= Q(acknowledged_at__isnull=False)
    ended = set(Incident.objects.filter(over, pk__in=ids).values_list("pk", flat=True))
    left = [each for each in found if each["id"] not in ended]
    if ended and left:
        data.update(count=len(left), incidents=left)
        notice.payload = json.dumps(payload, ensure_ascii=False)
        notice.save(update_fields=["payload"])
    return bool(left)


def _settle(notice: Notice, outcome: str) -> str:
    notice.due_at, notice.outcome = None, outcome
    notice.save(update_fields=["due_at", "sent_at", "outcome"])
    return outcome


def send_again(chosen: QuerySet[Notice]) -> list[Notice]:
    """Make those of `chosen` that failed or were given up due now, with all attempts; returns them."""
    with transaction.atomic():
        failed = list(Notice.objects.select_for_update().filter(FAILED, pk__in=chosen.values("pk")))
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
    """Plain text with the token's name and balance, and no secret. Names have no line break: customers.clean_name."""
    return EmailMessage(
        subject=f"Low balance: {token.name}",
        body=(
            f'The balance of the API token "{token.name}" fell to {notice.balance} credits on '
            f"{notice.created_at:%Y-%m-%d at %H:%M} UTC. It has {token.credits} now.\n\n"
            "A search costs one credit; without any left, searches are refused with 403.\n"
        ),
        to=to,
    )
