"""Who may call, and what they can spend.

The rules stand in tokens.py and credits.py; the database has the last word through the constraints here and the
triggers of the first migration (the ledger refuses UPDATE and DELETE).
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

    class Meta:
        verbose_name = "API token"
        constraints = [models.CheckConstraint(condition=Q(credits__gte=0), name="apitoken_credits_not_negative")]

    def __str__(self) -> str:
        return f"{self.name} (#{self.pk})"

    def state_at(self, now: datetime) -> str:
        """`revoked`, `expired` or `active`."""
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at <= now else "active"

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

    token = models.ForeignKey(ApiToken, on_delete=models.PROTECT, related_name="entries")
    amount = models.BigIntegerField()
    balance_after = models.BigIntegerField()
    kind = models.CharField(max_length=10, choices=Kind)
    actor = models.CharField(max_length=150, blank=True, help_text="Who: an operator's name, or empty for a search.")
    reason = models.CharField(max_length=200, blank=True)
    reference = models.CharField(max_length=100, blank=True, help_text="The operator's own reference: used once.")
    request_id = models.CharField(max_length=64, blank=True)
    number_hash = models.BinaryField(max_length=32, null=True)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        verbose_name_plural = "credit entries"
        constraints = [
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
    """What a search with an `Idempotency-Key` answered, for 24 hours. Key and number are kept as keyed hashes."""

    token = models.ForeignKey(ApiToken, on_delete=models.PROTECT, related_name="+")
    key_hash = models.BinaryField(max_length=32)
    number_hash = models.BinaryField(max_length=32)
    entry = models.ForeignKey(CreditEntry, on_delete=models.PROTECT, null=True, related_name="+")
    answer = models.TextField(blank=True, help_text="The JSON body; empty when the number was forgotten.")
    created_at = models.DateTimeField(db_index=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["token", "key_hash"], name="idempotencyrecord_key_once")]
