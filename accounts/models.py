"""Who may call, and what they can spend.

The rules stand in tokens.py and credits.py; the database has the last word through the constraints here and the
triggers in ledger_triggers.py (the ledger refuses UPDATE and DELETE, but for the forgetting of a number).
"""

from datetime import datetime

from django.db import models
from django.db.models import Q
from django.utils import timezone


class ApiToken(models.Model):
    """One integrator's account: its JWT is known only by `jti`, its balance only moves in credits.py."""

    name = models.CharField(max_length=100)
    note = models.TextField(blank=True)
    jti = models.CharField(max_length=32, unique=True, editable=False)
    previous_jti = models.CharField(max_length=32, unique=True, null=True, editable=False)
    previous_until = models.DateTimeField(null=True, editable=False, help_text="The rotated token works until then.")
    credits = models.BigIntegerField(default=0, editable=False)
    lifetime_days = models.PositiveIntegerField(editable=False, help_text="How long a token lives, rotated ones too.")
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    expires_at = models.DateTimeField(editable=False)
    revoked_at = models.DateTimeField(null=True, editable=False)
    revoked_reason = models.CharField(max_length=200, blank=True, editable=False)
    last_charged_at = models.DateTimeField(null=True, editable=False)
    contact = models.EmailField(blank=True, help_text="Gets a notice when the balance is low.")
    low_balance_at = models.PositiveBigIntegerField(
        "low balance at", null=True, blank=True, help_text="Credits: a notice is sent when the balance falls to this."
    )

    class Meta:
        verbose_name = "API token"
        permissions = [
            ("top_up_apitoken", "Can top up a token, within SUPPORT_CREDITS_PER_DAY"),
            ("give_any_credits", "Can give credits without that limit"),
            ("adjust_apitoken", "Can adjust the balance of a token"),
            ("rotate_apitoken", "Can rotate a token"),
            ("revoke_apitoken", "Can revoke a token"),
        ]
        constraints = [models.CheckConstraint(condition=Q(credits__gte=0), name="apitoken_credits_not_negative")]

    def __str__(self) -> str:
        return f"{self.name} (#{self.pk})"

    def state_at(self, now: datetime) -> str:
        """`revoked`, `expired`, `in grace` (rotated, and the earlier token works on) or `active`."""
        if self.revoked_at is not None:
            return "revoked"
        if self.expires_at <= now:
            return "expired"
        return "in grace" if self.previous_until is not None and self.previous_until > now else "active"

    @property
    def state(self) -> str:
        return self.state_at(timezone.now())


class CreditEntry(models.Model):
    """One line of the append-only ledger. A token's balance is the sum of its lines, at every moment."""

    class Kind(models.TextChoices):
        ISSUE = "issue"
        TOP_UP = "top-up"
        SEARCH = "search"
        ADJUSTMENT = "adjustment"
        REFUND = "refund"

    # Its index is the one with the time below, which also lists a token's lines newest first.
    token = models.ForeignKey(ApiToken, on_delete=models.PROTECT, related_name="entries", db_index=False)
    amount = models.BigIntegerField()
    balance_after = models.BigIntegerField()
    kind = models.CharField(max_length=10, choices=Kind)
    actor = models.CharField(max_length=150, blank=True, help_text="Who: an operator's name, or empty for a search.")
    reason = models.CharField(max_length=200, blank=True)
    reference = models.CharField(max_length=100, blank=True, help_text="The operator's own reference: used once.")
    request_id = models.CharField(max_length=64, blank=True)
    number_hash = models.BinaryField(max_length=32, null=True)
    refunds = models.ForeignKey(
        "self",
        on_delete=models.PROTECT,
        null=True,
        db_index=False,
        related_name="refunded_by",
        help_text="The search that this line gives back.",
    )
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        verbose_name = "ledger row"
        permissions = [
            ("refund_creditentry", "Can refund a search, within SUPPORT_CREDITS_PER_DAY"),
            ("export_creditentry", "Can export the ledger"),
        ]
        indexes = [
            models.Index(fields=["token", "created_at"], name="creditentry_token_created"),
            models.Index(fields=["created_at"], name="creditentry_created"),
            models.Index(fields=["request_id", "created_at"], name="creditentry_request_created"),
            # What operators book, among all the searches.
            models.Index(fields=["created_at"], condition=~Q(kind="search"), name="creditentry_booked_created"),
            models.Index(fields=["token", "created_at"], condition=~Q(kind="search"), name="creditentry_token_booked"),
        ]
        constraints = [
            models.UniqueConstraint(
                fields=["refunds"], condition=Q(refunds__isnull=False), name="creditentry_refunded_once"
            ),
            models.CheckConstraint(condition=Q(balance_after__gte=0), name="creditentry_balance_not_negative"),
            models.UniqueConstraint(
                fields=["token", "reference"], condition=~Q(reference=""), name="creditentry_reference_once"
            ),
            models.UniqueConstraint(
                fields=["reference"],
                condition=Q(kind="issue") & ~Q(reference=""),
                name="creditentry_issue_reference_once",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.amount:+d}"


class IdempotencyRecord(models.Model):
    """A search with an `Idempotency-Key`: first its claim, then what it answered, for 24 hours. Key and number are kept
    as keyed hashes. Written by idempotency.py, emptied by erasure.py."""

    token = models.ForeignKey(ApiToken, on_delete=models.PROTECT, related_name="+")
    key_hash = models.BinaryField(max_length=32)
    number_hash = models.BinaryField(max_length=32, null=True, help_text="Empty when the number was forgotten.")
    entry = models.ForeignKey(CreditEntry, on_delete=models.PROTECT, null=True, related_name="+")
    answer = models.TextField(blank=True, help_text="The JSON body; empty while claimed and when forgotten.")
    claim_id = models.CharField(max_length=32, blank=True, help_text="Random: which request holds, or held, the claim.")
    claim_expires_at = models.DateTimeField(null=True, help_text="Empty when the search has finished.")
    created_at = models.DateTimeField(db_index=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["token", "key_hash"], name="idempotencyrecord_key_once")]


class CreditDay(models.Model):
    """What operators booked of one kind on one UTC day: sums that credits.py keeps, so that nobody scans the ledger."""

    day = models.DateField()
    kind = models.CharField(max_length=10, choices=CreditEntry.Kind)
    amount = models.BigIntegerField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["day", "kind"], name="creditday_day_kind_once")]


class SearchHour(models.Model):
    """How many requests of all tokens ended in one way within one hour. Written by activity.py alone."""

    hour = models.DateTimeField(help_text="When it begins (UTC).")
    outcome = models.CharField(max_length=16)
    count = models.BigIntegerField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["hour", "outcome"], name="searchhour_hour_outcome_once")]


class TokenDay(models.Model):
    """How many requests of one token ended in one way on one UTC day. Written by activity.py alone."""

    # No constraint: what was counted is written whatever has become of the token.
    token = models.ForeignKey(
        ApiToken, on_delete=models.DO_NOTHING, related_name="days", db_constraint=False, db_index=False
    )
    day = models.DateField()
    outcome = models.CharField(max_length=16)
    count = models.BigIntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["token", "day", "outcome"], name="tokenday_token_day_outcome_once")
        ]
        indexes = [models.Index(fields=["day"], name="tokenday_day")]


class Notice(models.Model):
    """An e-mail to write to a token's contact: its balance fell to its threshold. Sent by `send_notices` alone."""

    token = models.ForeignKey(ApiToken, on_delete=models.PROTECT, related_name="notices")
    threshold = models.PositiveBigIntegerField()
    balance = models.BigIntegerField()
    created_at = models.DateTimeField(default=timezone.now)
    due_at = models.DateTimeField(null=True, help_text="When it is tried next; empty when it is settled.")
    attempts = models.PositiveIntegerField(default=0)
    sent_at = models.DateTimeField(null=True)
    outcome = models.CharField(max_length=100, blank=True, help_text="What became of it.")

    class Meta:
        indexes = [models.Index(fields=["due_at"], condition=Q(due_at__isnull=False), name="notice_due")]

    def __str__(self) -> str:
        return f"Low balance of token #{self.token_id}"
