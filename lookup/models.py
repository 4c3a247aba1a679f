"""What the built-in sources know. A number is one 64-bit integer: its digits with country code (E.164: at most 15)."""

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.utils import timezone

MAX_COUNT = 2**31 - 1


class NumberField(models.BigIntegerField):
    """A phone number: country code and number, 7 to 15 digits, no leading zero."""

    default_validators = [MinValueValidator(1_000_000), MaxValueValidator(999_999_999_999_999)]


class Contact(models.Model):
    """A name, a place, or both, from the operator's own directory. One per number."""

    number = NumberField(primary_key=True)
    name = models.CharField(max_length=200, blank=True)
    location = models.CharField(max_length=200, blank=True)
    updated_at = models.DateTimeField(default=timezone.now, editable=False)

    def __str__(self) -> str:
        return str(self.number)


class NumberPrefix(models.Model):
    """A block of the numbering plan and its place, in English. Empty: the plan names none, the country answers."""

    prefix = models.BigIntegerField(primary_key=True)
    place = models.CharField(max_length=200, blank=True)


class Country(models.Model):
    """A region of the numbering plan (ISO 3166-1 alpha-2) and its English name."""

    code = models.CharField(max_length=2, primary_key=True)
    name = models.CharField(max_length=100)

    class Meta:
        verbose_name_plural = "countries"


class ComplaintSubject(models.Model):
    """What complaints are about, in a source's own words. There are few: a row's reference to them is 16 bits."""

    id = models.SmallAutoField(primary_key=True)
    text = models.CharField(max_length=100, unique=True)

    def __str__(self) -> str:
        return self.text


class ComplaintDay(models.Model):
    """How often a number was complained about on one day, by one source, and mostly about what."""

    number = NumberField()
    source = models.CharField(max_length=32)
    day = models.DateField()
    total = models.PositiveIntegerField(validators=[MaxValueValidator(MAX_COUNT)])
    robocalls = models.PositiveIntegerField(default=0, validators=[MaxValueValidator(MAX_COUNT)])
    # Without a constraint and an index of its own: they would cost an import more than the row.
    subject = models.ForeignKey(
        ComplaintSubject, on_delete=models.DO_NOTHING, null=True, blank=True, db_constraint=False, db_index=False
    )

    class Meta:
        # For what an import replaces and what is past its age.
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
    """The operator's own word about a number. It stands above every source."""

    number = NumberField(primary_key=True)
    spam = models.BooleanField(null=True, blank=True, help_text="Yes or no; unknown leaves it to the sources.")
    name = models.CharField(max_length=200, blank=True, help_text="Empty leaves it to the sources.")
    note = models.CharField(max_length=200, blank=True, help_text="For operators; never in an answer.")
    updated_at = models.DateTimeField(default=timezone.now, editable=False)

    class Meta:
        verbose_name = "rule"

    def __str__(self) -> str:
        return str(self.number)


class NumberMark(models.Model):
    """A number that was corrected or forgotten: answers kept from before `at` are not used. No number stands here, only
    its keyed hash (accounts.hashing)."""

    number_hash = models.BinaryField(max_length=32, primary_key=True)
    at = models.DateTimeField(db_index=True)
    blocked = models.BooleanField(default=False, help_text="Imports leave it out.")


class Dataset(models.Model):
    """Which version of a data set is loaded, so that an unchanged one is not loaded again."""

    name = models.CharField(max_length=64, primary_key=True)
    version = models.CharField(max_length=64)
    rows = models.PositiveIntegerField()
    loaded_at = models.DateTimeField(default=timezone.now)


class AnswerSums(models.Model):
    """How often a source was asked with one outcome, and how long it took."""

    slot = models.CharField(max_length=16, blank=True, help_text="Empty: an event of the source's, in no slot.")
    connector = models.CharField(max_length=200)
    outcome = models.CharField(max_length=32)
    count = models.BigIntegerField(default=0)
    total_us = models.BigIntegerField("total (µs)", default=0)
    # How many took so many milliseconds at most, and more than the bucket before. An event took none.
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
        abstract = True


class Usage(AnswerSums):
    """Within one hour for one token. Written by `lookup.usage` alone, which adds to the sums."""

    hour = models.DateTimeField(help_text="When it begins (UTC).")
    # No foreign key: what was counted is written whatever has become of the token.
    token_id = models.BigIntegerField(help_text="0: no token asked.")

    class Meta:
        verbose_name = verbose_name_plural = "usage"
        constraints = [
            models.UniqueConstraint(
                fields=["hour", "token_id", "slot", "connector", "outcome"],
                name="usage_hour_token_slot_connector_outcome",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.connector} {self.hour:%Y-%m-%d %H:%M}"


class SourceHour(AnswerSums):
    """As `Usage`, for all tokens together: some rows an hour however many tokens there are, for the console."""

    hour = models.DateTimeField(help_text="When it begins (UTC).")

    class Meta:
        # Nobody sees a row: who may view usage sees the sums.
        default_permissions = ()
        constraints = [
            models.UniqueConstraint(
                fields=["hour", "slot", "connector", "outcome"], name="sourcehour_hour_slot_connector_outcome"
            ),
        ]


class SourceResult(models.Model):
    """When a source last answered (`reason` empty), and when it last failed for each reason. Written by `lookup.usage`
    alone. It holds no number, and nothing that a source sent."""

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
