"""Tables of the built-in sources. A number is a 64-bit integer: its digits with country code (E.164: at most 15)."""

from datetime import UTC, datetime

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.utils import timezone

from accounts.models import ApiToken, CreditEntry

MAX_COUNT = 2**31 - 1


class NumberField(models.BigIntegerField):
    """A phone number: country code and number, 7 to 15 digits, without a leading zero."""

    default_validators = [MinValueValidator(1_000_000), MaxValueValidator(999_999_999_999_999)]


class Contact(models.Model):
    """A name, a place, or both, from the operator's directory. One per number."""

    number = NumberField(unique=True)
    name = models.CharField(max_length=200, blank=True)
    location = models.CharField(max_length=200, blank=True)
    updated_at = models.DateTimeField(default=timezone.now, editable=False)
    # The address book that the row was published from, and whose next synchronization may change or delete it
    # (lookup.address_books). NULL: imported, or entered in the console.
    book = models.CharField("address book", max_length=32, null=True, editable=False)

    def __str__(self) -> str:
        return str(self.number)


class AddressBook(models.Model):
    """An address book that `sync_contacts` synchronizes (ADDRESS_BOOKS), and what its last run did."""

    name = models.CharField(max_length=32, primary_key=True)
    position = models.PositiveSmallIntegerField(help_text="The first book that has a number wins.")
    settings_digest = models.CharField(max_length=32, blank=True, help_text="Of its settings without the password.")
    sync_token = models.TextField(blank=True, help_text="RFC 6578; empty if the server has none.")
    revision = models.IntegerField(default=0, help_text="Changes with each synchronization.")
    contacts = models.PositiveIntegerField(default=0, help_text="Different numbers of all cards.")
    rejected = models.PositiveIntegerField(default=0, help_text="Numbers that could not be used.")
    synced_at = models.DateTimeField(null=True)
    failed_at = models.DateTimeField(null=True)
    error = models.CharField(max_length=200, blank=True)

    class Meta:
        default_permissions = ()  # shown on the Sources page


class AddressBookCard(models.Model):
    """A card of an address book, with or without numbers, so that an unchanged one is not transferred again."""

    book = models.ForeignKey(AddressBook, on_delete=models.CASCADE)
    key = models.CharField(max_length=32, help_text="Hash of its path or id on the server, which may have a name.")
    version = models.CharField(max_length=32, blank=True, help_text="Hash of its ETag or change number.")
    rejected = models.PositiveIntegerField(default=0)

    class Meta:
        default_permissions = ()
        constraints = [models.UniqueConstraint(fields=["book", "key"], name="addressbookcard_book_key")]


class AddressBookContact(models.Model):
    """A number of a card. Searches read only Contact, into which the first book's are published."""

    number = NumberField()
    card = models.ForeignKey(AddressBookCard, on_delete=models.CASCADE)
    name = models.CharField(max_length=200, blank=True)
    location = models.CharField(max_length=200, blank=True)

    class Meta:
        default_permissions = ()
        constraints = [models.UniqueConstraint(fields=["number", "card"], name="addressbookcontact_number_card")]


class NumberPrefix(models.Model):
    """A prefix of the numbering plan and its place in English. Empty: the country is used."""

    prefix = models.BigIntegerField(primary_key=True)
    place = models.CharField(max_length=200, blank=True)


class Country(models.Model):
    """A region of the numbering plan (ISO 3166-1 alpha-2) and its English name."""

    code = models.CharField(max_length=2, primary_key=True)
    name = models.CharField(max_length=100)

    class Meta:
        verbose_name_plural = "countries"


class ComplaintSubject(models.Model):
    """The subject of complaints as their source calls it. There are few, so a reference has 16 bits."""

    id = models.SmallAutoField(primary_key=True)
    text = models.CharField(max_length=100, unique=True)

    def __str__(self) -> str:
        return self.text


class ComplaintDay(models.Model):
    """The complaints about a number on one day from one source, and their most frequent subject."""

    number = NumberField()
    source = models.CharField(max_length=32)
    day = models.DateField()
    total = models.PositiveIntegerField(validators=[MaxValueValidator(MAX_COUNT)])
    robocalls = models.PositiveIntegerField(default=0, validators=[MaxValueValidator(MAX_COUNT)])
    # It has no constraint and no index: they would cost an import more than the row itself.
    subject = models.ForeignKey(
        ComplaintSubject, on_delete=models.DO_NOTHING, null=True, blank=True, db_constraint=False, db_index=False
    )

    class Meta:
        verbose_name, verbose_name_plural = "complaint count", "complaints"
        # For the rows that an import replaces, and for pruning.
        indexes = [models.Index(fields=["day", "source"], name="complaintday_day_source")]
        constraints = [
            models.UniqueConstraint(fields=["number", "source", "day"], name="complaintday_number_source_day"),
            models.CheckConstraint(
                condition=models.Q(robocalls__lte=models.F("total")), name="complaintday_robocalls_at_most_total"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.number} {self.day}"


class NumberRule(models.Model):
    """An operator rule for one number. It overrides every source."""

    number = NumberField(unique=True)
    spam = models.BooleanField(null=True, blank=True, help_text="Choose Unknown to use the sources.")
    name = models.CharField(max_length=200, blank=True, help_text="Leave empty to use the sources.")
    note = models.CharField(max_length=200, blank=True, help_text="For operators; never in a response.")
    updated_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        verbose_name = "rule"

    def __str__(self) -> str:
        return str(self.number)


class CacheVersion(models.Model):
    """A number whose data was corrected or erased. The version is part of the key of its cached vendor answers
    (lookup.cache_versions); imports skip a suppressed one (lookup.suppression). Holds the number's keyed hash only
    (core.hashing)."""

    number_hash = models.BinaryField(max_length=32, primary_key=True)
    changed_at = models.DateTimeField(db_column="at", db_index=True)
    suppressed = models.BooleanField(db_column="blocked", default=False, help_text="Imports skip this number.")

    class Meta:
        db_table = "lookup_numbermark"  # the model's former name, as are the two columns'


class Dataset(models.Model):
    """The loaded version of a data set, so that an unchanged one is not loaded again."""

    name = models.CharField(max_length=64, primary_key=True)
    version = models.CharField(max_length=64)
    rows = models.PositiveIntegerField()
    loaded_at = models.DateTimeField(default=timezone.now)


class SourceHour(models.Model):
    """How often a source was called within one hour with one outcome, and how long it took. Only lookup.statistics
    writes here, by adding to the sums."""

    hour = models.DateTimeField(help_text="Start of the hour (UTC).")
    slot = models.CharField(max_length=16, blank=True, help_text="Empty for an event of the source without a slot.")
    connector = models.CharField(max_length=200)
    outcome = models.CharField(max_length=32)
    count = models.BigIntegerField(default=0)
    total_us = models.BigIntegerField("total (µs)", default=0)
    # A histogram: each bucket counts the durations above the bound of the one before. Events have no duration.
    ms_1 = models.IntegerField("up to 1 ms", default=0)
    ms_5 = models.IntegerField("up to 5 ms", default=0)
    ms_10 = models.IntegerField("up to 10 ms", default=0)
    ms_25 = models.IntegerField("up to 25 ms", default=0)
    ms_50 = models.IntegerField("up to 50 ms", default=0)
    ms_100 = models.IntegerField("up to 100 ms", default=0)
    ms_250 = models.IntegerField("up to 250 ms", default=0)
    ms_500 = models.IntegerField("up to 500 ms", default=0)
    ms_1000 = models.IntegerField("up to 1 s", default=0)
    ms_2500 = models.IntegerField("up to 2.5 s", default=0)
    ms_more = models.IntegerField("more", default=0)

    class Meta:
        default_permissions = ()  # no page shows single rows; `Usage` has the permission to view the totals
        constraints = [
            models.UniqueConstraint(
                fields=["hour", "slot", "connector", "outcome"], name="sourcehour_hour_slot_connector_outcome"
            ),
        ]


class Usage(SourceHour):
    """The console's Sources page, and the permission to view it."""

    class Meta:
        proxy = True
        default_permissions = ("view",)
        permissions = (
            ("check_source", "Can check a source by a real call"),
            ("pause_source", "Can pause and resume sources"),
            ("test_lookup", "Can test a number in all sources"),
        )
        verbose_name = verbose_name_plural = "sources"


class SourceResult(models.Model):
    """When a source last answered (`reason` empty) and last failed for each reason. Only lookup.statistics writes here.
    Holds no number and no data from a source."""

    connector = models.CharField(max_length=200)
    reason = models.CharField(max_length=32, blank=True)
    hint = models.CharField(max_length=200, blank=True, help_text="What an operator can do.")
    last_ms = models.BigIntegerField(default=0, help_text="Milliseconds since 1970 (UTC).")

    class Meta:
        # As for SourceHour.
        default_permissions = ()
        constraints = [
            models.UniqueConstraint(
                fields=["connector", "reason", "hint"], name="sourceresult_connector_reason_hint_once"
            )
        ]

    @property
    def at(self) -> datetime:
        return datetime.fromtimestamp(self.last_ms / 1000, UTC)


class SourcePause(models.Model):
    """A source that an operator has paused: no process calls it. Written only by lookup.source_actions."""

    connector = models.CharField(max_length=200, primary_key=True)
    reason = models.CharField(max_length=200)
    paused_by = models.CharField(max_length=150)
    paused_at = models.DateTimeField(default=timezone.now)

    class Meta:
        default_permissions = ()  # `Usage` has the permission to pause
        verbose_name = "source"

    def __str__(self) -> str:
        return self.connector


class SourceCheck(models.Model):
    """The last check of a source from the console (lookup.source_actions). No number, no data from a source."""

    connector = models.CharField(max_length=200, primary_key=True)
    started_by = models.CharField(max_length=150)
    started_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True, help_text="Empty while the check runs, or if its process died.")
    result = models.JSONField(default=dict)

    class Meta:
        default_permissions = ()  # as for SourcePause


class RequestLogEntry(models.Model):
    """A request with a valid token: what came of it, and what each source did. Only lookup.request_log writes here.

    Holds no number in clear, no name and no answer. Durations are in microseconds.
    """

    created_at = models.DateTimeField(help_text="When it was answered.")
    # No constraints: rows are written even if what they refer to is gone, and an insert looks nothing up.
    token = models.ForeignKey(
        ApiToken, on_delete=models.DO_NOTHING, related_name="+", db_constraint=False, db_index=False
    )
    request_id = models.CharField(max_length=64)
    status = models.SmallIntegerField(help_text="The HTTP status of the response.")
    outcome = models.CharField(max_length=16, help_text="One of accounts.statistics.OUTCOMES.")
    charged = models.BooleanField()
    replayed = models.BooleanField()
    entry = models.ForeignKey(
        CreditEntry,
        on_delete=models.DO_NOTHING,
        null=True,
        related_name="+",
        db_constraint=False,
        db_index=False,
        help_text="The ledger entry of the charge.",
    )
    number_mask = models.CharField(max_length=15, blank=True, help_text="Empty when there was none, and when erased.")
    number_hash = models.BinaryField(max_length=32, null=True)
    duration_us = models.IntegerField("duration (µs)", help_text="From receipt, with time in the queue, to the answer.")
    # `found`, `not-found` or `failed`; empty when the slot was not asked.
    source_a = models.CharField(max_length=9, blank=True)
    source_a_us = models.IntegerField("source A (µs)", null=True)
    source_b = models.CharField(max_length=9, blank=True)
    source_b_us = models.IntegerField("source B (µs)", null=True)
    failures = models.TextField(
        blank=True, help_text="`slot:connector:reason` of each failure, separated by spaces; no connector: `-`."
    )
    calls = models.TextField(blank=True, help_text="JSON: by slot, each call's connector, outcome, duration and hint.")

    class Meta:
        verbose_name = "request"
        verbose_name_plural = "request log"
        default_permissions = ("view",)
        # The filters of the console's Request log, each newest first.
        indexes = [
            models.Index(fields=["created_at"], name="requestlog_created"),
            models.Index(fields=["token", "created_at"], name="requestlog_token_created"),
            models.Index(fields=["request_id", "created_at"], name="requestlog_request_created"),
            models.Index(fields=["number_hash", "created_at"], name="requestlog_number_created"),
            models.Index(fields=["outcome", "created_at"], name="requestlog_outcome_created"),
            models.Index(
                fields=["status", "created_at"], condition=~models.Q(status=200), name="requestlog_status_created"
            ),
            models.Index(fields=["created_at"], condition=~models.Q(failures=""), name="requestlog_failed_created"),
        ]

    def __str__(self) -> str:
        return f"Request {self.request_id}"
