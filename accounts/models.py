"""API tokens, their credits and the ledger.

The rules are in tokens.py and credits.py; the database has the last word through the constraints here and the
triggers in the initial migration (the ledger refuses UPDATE and DELETE, except to erase a number's hash).
"""

import re
from datetime import datetime
from typing import ClassVar, NamedTuple

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Q
from django.utils import timezone

#: The first characters of every JWT of this service: the base64 of `{"alg"`.
JWT_PREFIX = "eyJhbGci"
#: Requests of one token in a window (RATE_LIMIT).
MAX_RATE_LIMIT = 100_000


class Customer(models.Model):
    """A person or company that owns tokens. The rules are in customers.py."""

    name = models.CharField(max_length=100)
    note = models.TextField(blank=True)
    # Links to the customer's page that were signed with another version are refused.
    links_version = models.PositiveIntegerField(default=1, editable=False)
    created_at = models.DateTimeField(default=timezone.now, editable=False)

    def __str__(self) -> str:
        return f"{self.name} (#{self.pk})"


class CustomerContact(models.Model):
    """Whom to write to about a customer's tokens."""

    customer = models.ForeignKey(Customer, on_delete=models.CASCADE, related_name="contacts")
    name = models.CharField(max_length=100, blank=True)
    email = models.EmailField("e-mail address")
    low_balance = models.BooleanField(
        "low-balance notices",
        default=True,
        help_text="Gets the notices of the customer's tokens that have no contact of their own.",
    )

    class Meta:
        default_permissions = ()  # those of the customer
        constraints = [
            models.UniqueConstraint(
                fields=["customer", "email"],
                name="customercontact_email_once",
                violation_error_message="This customer has a contact with this address already.",
            )
        ]

    def __str__(self) -> str:
        """The history quotes it, and must not keep the address of a deleted one."""
        return f"Contact #{self.pk}"


class CustomerWebhook(models.Model):
    """Where a customer's own system gets the low-balance notices of its tokens, which an add-on sends."""

    customer = models.OneToOneField(Customer, on_delete=models.CASCADE, primary_key=True, related_name="webhook")
    url = models.CharField(max_length=500)
    secret = models.CharField(max_length=100)

    class Meta:
        default_permissions = ()  # those of the customer

    def __str__(self) -> str:
        return f"Webhook of customer {self.pk}"


class ApiToken(models.Model):
    """One integrator's API token: its JWT is known only by `jti`, its balance only changes in credits.py. A test token
    (lookup.test_mode) has no credits."""

    name = models.CharField(max_length=100)
    customer = models.ForeignKey(Customer, on_delete=models.PROTECT, null=True, db_index=False, related_name="tokens")
    note = models.TextField(blank=True)
    # Set when the token is issued, and never changed.
    is_test = models.BooleanField("test token", default=False, db_default=False, editable=False)
    jti = models.CharField(max_length=32, unique=True, editable=False)
    previous_jti = models.CharField(max_length=32, unique=True, null=True, editable=False)
    previous_until = models.DateTimeField(null=True, editable=False, help_text="The previous token works until then.")
    # Of the current JWT.
    last_four = models.CharField(max_length=4, default="", db_default="", editable=False)
    credits = models.BigIntegerField(default=0, editable=False)
    # A debit names it and changes nothing once it has increased: accounts.debit.close_debit.
    charge_epoch = models.BigIntegerField(default=0, db_default=0, editable=False)
    # tokens.rate_limit says what an empty one means.
    rate_limit = models.IntegerField(  # without a constraint, whose check of the existing rows would lock the table
        null=True, blank=True, validators=[MinValueValidator(1), MaxValueValidator(MAX_RATE_LIMIT)]
    )
    lifetime_days = models.PositiveIntegerField(editable=False, help_text="Lifetime of a token, also after rotation.")
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    expires_at = models.DateTimeField(editable=False)
    revoked_at = models.DateTimeField(null=True, editable=False)
    revoked_reason = models.CharField(max_length=200, blank=True, editable=False)
    last_charged_at = models.DateTimeField(null=True, editable=False)
    contact = models.EmailField(blank=True, help_text="Gets an e-mail when the balance is low.")
    low_balance_at = models.PositiveBigIntegerField(
        "low balance threshold",
        null=True,
        blank=True,
        help_text="A notice is sent when the balance falls to this many credits.",
    )

    class Meta:
        verbose_name = "API token"
        permissions = [
            ("top_up_apitoken", "Can top up a token, within SUPPORT_CREDITS_PER_DAY"),
            ("give_any_credits", "Can give credits without that limit"),
            ("adjust_apitoken", "Can adjust the balance of a token"),
            ("rotate_apitoken", "Can rotate a token"),
            ("revoke_apitoken", "Can revoke a token"),
            ("transfer_apitoken", "Can move credits between the tokens of a customer"),
        ]
        indexes = [
            models.Index(fields=["last_four"], name="apitoken_last_four"),
            models.Index(fields=["customer"], name="apitoken_customer"),
        ]
        constraints = [models.CheckConstraint(condition=Q(credits__gte=0), name="apitoken_credits_not_negative")]

    def __str__(self) -> str:
        return f"{self.name} (#{self.pk})"

    @property
    def hint(self) -> str:
        """The first and the last characters of the JWT, `eyJhbGci…Wx4Q`. All JWTs of this service begin alike, with
        their header."""
        return f"{JWT_PREFIX}…{self.last_four}"

    def state_at(self, now: datetime) -> str:
        """`revoked`, `expired`, `in grace` (rotated, and the previous token still works) or `active`."""
        if self.revoked_at is not None:
            return "revoked"
        if self.expires_at <= now:
            return "expired"
        return "in grace" if self.previous_until is not None and self.previous_until > now else "active"

    @property
    def state(self) -> str:
        return self.state_at(timezone.now())

    def is_usable_at(self, now: datetime) -> bool:
        """Whether its JWT is accepted: neither revoked nor expired."""
        return self.revoked_at is None and self.expires_at > now


class ActiveToken(NamedTuple):
    """What a search needs to know of an ApiToken, as it was when it was read."""

    pk: int
    is_test: bool
    credits: int
    charge_epoch: int
    rate_limit: int | None


def reason_of(reference: str) -> str:
    """The reason of an entry for which only a reference was entered."""
    return f"Reference {reference}"


class CreditEntry(models.Model):
    """One entry of the append-only ledger. A token's balance is the sum of its entries, at every moment."""

    #: Those of the migrations, by database (core.schema_state). Without them the ledger could be changed.
    TRIGGERS: ClassVar = {
        "postgresql": ("accounts_creditentry_append_only", "accounts_creditentry_no_truncate"),
        "sqlite": ("accounts_creditentry_no_update", "accounts_creditentry_no_delete"),
    }

    class Kind(models.TextChoices):
        ISSUE = "issue"
        TOP_UP = "top-up", "Top-up"
        SEARCH = "search"
        ADJUSTMENT = "adjustment"
        REFUND = "refund"
        TRANSFER = "transfer"

    # Its index is the one with the time below, which also lists a token's entries newest first.
    token = models.ForeignKey(ApiToken, on_delete=models.PROTECT, related_name="entries", db_index=False)
    amount = models.BigIntegerField()
    balance_after = models.BigIntegerField()
    kind = models.CharField(max_length=10, choices=Kind)
    actor = models.CharField("by", max_length=150, blank=True)  # an operator's name; empty for the service itself
    reason = models.CharField(max_length=200, blank=True)
    reference = models.CharField(
        max_length=100, blank=True, help_text="The operator's own reference, unique per token."
    )
    price = models.DecimalField(
        max_digits=14,
        decimal_places=4,
        null=True,
        editable=False,
        help_text="What the customer paid for these credits in total, in CURRENCY; empty if unknown.",
    )
    request_id = models.CharField(max_length=64, blank=True)
    number_hash = models.BinaryField(max_length=32, null=True)
    refunds = models.ForeignKey(
        "self",
        on_delete=models.PROTECT,
        null=True,
        db_index=False,
        related_name="refunded_by",
        help_text="The search that this entry refunds.",
    )
    # Not checked by the database, because the column was added to an existing table. Tokens are never deleted.
    other_token = models.ForeignKey(
        ApiToken,
        on_delete=models.PROTECT,
        null=True,
        db_constraint=False,
        db_index=False,
        related_name="+",
        help_text="Of a transfer, where the credits went or came from. Its entry has the same reference.",
    )
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        verbose_name = "ledger entry"
        verbose_name_plural = "ledger entries"
        permissions = [
            ("refund_creditentry", "Can refund a search, within SUPPORT_CREDITS_PER_DAY"),
            ("export_creditentry", "Can export the ledger"),
        ]
        indexes = [
            models.Index(fields=["token", "created_at"], name="creditentry_token_created"),
            models.Index(fields=["created_at"], name="creditentry_created"),
            models.Index(fields=["request_id", "created_at"], name="creditentry_request_created"),
            models.Index(
                fields=["reference", "created_at"], condition=~Q(reference=""), name="creditentry_reference_created"
            ),
            # Entries made by operators, among all the searches.
            models.Index(fields=["created_at"], condition=~Q(kind="search"), name="creditentry_booked_created"),
            models.Index(fields=["token", "created_at"], condition=~Q(kind="search"), name="creditentry_token_booked"),
            # All that accounts.sales sums of them.
            models.Index(
                fields=["price", "amount", "kind", "created_at"],
                condition=~Q(kind="search"),
                name="creditentry_booked_sums",
            ),
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
        return f"Ledger entry {self.pk}"

    @property
    def kind_text(self) -> str:
        """The kind for operators, of a transfer with the other token: `Transfer to #7`."""
        if self.other_token_id is None:
            return self.get_kind_display()
        return f"{self.get_kind_display()} {'to' if self.amount < 0 else 'from'} #{self.other_token_id}"

    @property
    def own_reference(self) -> str:
        """The reference if somebody entered it: an invoice number, not the UUID of the page that was submitted."""
        return "" if re.fullmatch("[0-9a-f]{32}", self.reference) else self.reference

    @property
    def own_reason(self) -> str:
        """The reason, unless only a reference was entered, which it repeats then."""
        return "" if self.reason == reason_of(self.reference) else self.reason

    @property
    def counterpart(self) -> "CreditEntry | None":
        """The other entry of a transfer."""
        return CreditEntry.objects.filter(
            token=self.other_token_id, other_token=self.token_id, kind=self.Kind.TRANSFER, reference=self.reference
        ).first()


class IdempotencyRecord(models.Model):
    """A search with an `Idempotency-Key`: first its claim, then its answer, for 24 hours. Key and number are stored as
    keyed hashes. Written by idempotency.py, erased by erasure.py."""

    token = models.ForeignKey(ApiToken, on_delete=models.PROTECT, related_name="+")
    key_hash = models.BinaryField(max_length=32)
    number_hash = models.BinaryField(max_length=32, null=True, help_text="Empty when the number was erased.")
    entry = models.ForeignKey(CreditEntry, on_delete=models.PROTECT, null=True, related_name="+")
    answer = models.TextField(blank=True, help_text="The JSON body; empty while claimed and when erased.")
    claim_id = models.CharField(
        max_length=32, blank=True, help_text="Random id of the request that holds, or held, the claim."
    )
    claim_expires_at = models.DateTimeField(null=True, help_text="Empty when the search has finished.")
    created_at = models.DateTimeField(db_index=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["token", "key_hash"], name="idempotencyrecord_key_once")]


class UnknownCharge(models.Model):
    """A search without an `Idempotency-Key` that was answered with 500 although its debit may have been committed.
    unknown_charges.py adds it, and finds its outcome."""

    class Outcome(models.TextChoices):
        UNKNOWN = "unknown"
        REFUNDED = "refunded"
        NOT_CHARGED = "not charged"

    # Without a constraint, which would wait for the token's lock.
    token = models.ForeignKey(
        ApiToken, on_delete=models.DO_NOTHING, related_name="+", db_constraint=False, db_index=False
    )
    charged_at = models.DateTimeField(help_text="The `created_at` of the ledger entry, if there is one.")
    request_id = models.CharField(max_length=64)
    outcome = models.CharField(max_length=11, choices=Outcome, default=Outcome.UNKNOWN)
    settled_at = models.DateTimeField(null=True, help_text="Empty while the outcome is unknown.")

    class Meta:
        default_permissions = ()  # the dashboard shows how many there are
        constraints = [
            models.UniqueConstraint(fields=["token", "charged_at", "request_id"], name="unknowncharge_debit_once")
        ]
        indexes = [models.Index(fields=["id"], condition=Q(outcome="unknown"), name="unknowncharge_unknown")]


class SearchHour(models.Model):
    """Requests of all tokens with one outcome within one hour. Written only by request_statistics.py."""

    hour = models.DateTimeField(help_text="Start of the hour (UTC).")
    outcome = models.CharField(max_length=16)
    count = models.BigIntegerField(default=0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["hour", "outcome"], name="searchhour_hour_outcome_once")]


class TokenDay(models.Model):
    """Requests of one token with one outcome on one UTC day. Written only by request_statistics.py."""

    # No constraint: counts are written even if the token is gone.
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
