"""Low-balance notices: `send_notices` reads in the ledger whose balance fell to its token's threshold, and writes that
into the outbox (notices.py)."""

from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet

from accounts.models import CreditEntry, CustomerContact, CustomerWebhook
from contrib.alerts import alert_recipients, customer_notices, notices
from contrib.alerts.models import Notice
from monitoring import task_runs

#: The name of the task: `send_notices` has read the ledger up to that time. It runs only where these notices are on.
TASK = "low_balance"
#: So much of what the last run may have read is read again: a transaction may commit an entry this long after its time,
#: and the clocks of hosts differ.
OVERLAP = timedelta(minutes=2)
#: How far back the first run reads after a longer pause.
MAX_AGE = timedelta(days=1)


def write_notices(now: datetime) -> None:
    """Write a notice of each ledger entry since the last run that took a balance from above its token's present
    threshold down to it or below, once: to the token's contact or else those of its customer, and to webhooks, ours and
    the customer's. Nothing if nobody would get it.

    The first run after notices were switched on starts at `now`, less OVERLAP.
    """
    if not settings.LOW_BALANCE_NOTICES:
        task_runs.forget(TASK)
        return
    last = task_runs.succeeded_at(TASK) or now
    since = max(min(last, now), now - MAX_AGE) - OVERLAP
    # Before the transaction, which on SQLite would block searches meanwhile.
    found = list(crossings(since))
    with transaction.atomic():
        # One sender at a time: another one that has read the same entries waits here, and then finds their notices.
        task_runs.advance(TASK, now)
        tokens = {token_id for token_id, *_ in found}
        written = Notice.objects.filter(event=Notice.Event.BALANCE_LOW, token__in=tokens, created_at__gte=since)
        known = set(written.values_list("token_id", "created_at"))
        Notice.objects.bulk_create(
            Notice(token_id=token_id, created_at=at, due_at=at, balance=balance, threshold=threshold)
            for token_id, at, balance, threshold in found
            if (token_id, at) not in known
        )
        _write_webhooks()


def crossings(since: datetime) -> QuerySet[CreditEntry, tuple[int, datetime, int, int]]:
    """Token, time, balance and threshold of each entry, the oldest first. By the index on the entries' time."""
    before = F("balance_after") - F("amount")
    crossed = Q(token__low_balance_at__gte=F("balance_after"), token__low_balance_at__lt=before)
    # The last condition, which others imply, lets PostgreSQL leave out most tokens at once.
    entries = CreditEntry.objects.filter(crossed, created_at__gte=since, token__low_balance_at__isnull=False)
    if not settings.ALERT_WEBHOOK_URLS:
        customer = {"customer": OuterRef("token__customer")}
        entries = entries.filter(
            ~Q(token__contact="")
            | Exists(CustomerContact.objects.filter(low_balance=True, **customer))
            | Exists(CustomerWebhook.objects.filter(**customer))
        )
    columns = ("token_id", "created_at", "balance_after", "token__low_balance_at")
    return entries.order_by("created_at", "pk").values_list(*columns)


def _write_webhooks() -> None:
    """Write the notices to webhooks of each low balance whose e-mail is pending, once: apart from the e-mail, so that
    they do not wait for an unavailable mail server."""
    emails = Notice.objects.filter(
        due_at__isnull=False, token__revoked_at=None, token__isnull=False, has_webhooks=False
    )
    for email in emails.order_by("pk"):
        if emails.filter(pk=email.pk).update(has_webhooks=True):  # else another sender has written them
            data = {"token_id": email.token_id, "balance": email.balance, "threshold": email.threshold}
            targets = alert_recipients.webhook_targets()
            notices.write(event=Notice.Event.BALANCE_LOW, data=data, at=email.created_at, targets=targets)
            customer_notices.write_webhook(email)


def prune() -> int:
    """As notices.prune. Switched on again, low-balance notices begin anew."""
    if not settings.LOW_BALANCE_NOTICES:
        task_runs.forget(TASK)
    return notices.prune()
