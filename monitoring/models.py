"""What the service knows about itself: runs of tasks, statistics of sources, and the request log."""

from datetime import UTC, datetime

from django.db import models
from django.db.models import Q

from accounts.models import ApiToken, CreditEntry


class TaskRun(models.Model):
    """When a maintenance command last succeeded and last failed. Only monitoring.task_runs writes here."""

    name = models.CharField(max_length=32, primary_key=True)
    succeeded_at = models.DateTimeField(null=True)
    failed_at = models.DateTimeField(null=True)

    class Meta:
        default_permissions = ()  # no page shows them

    @property
    def failure_at(self) -> datetime | None:
        """When the last run failed; None if it succeeded."""
        is_newer = self.failed_at and (self.succeeded_at is None or self.failed_at > self.succeeded_at)
        return self.failed_at if is_newer else None


class SourceHour(models.Model):
    """How often a source was called within one hour with one outcome, and how long it took. Only
    monitoring.source_statistics writes here, by adding to the sums."""

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
        default_permissions = ()  # no page shows single rows; `Source` has the permission to view the totals
        constraints = [
            models.UniqueConstraint(
                fields=["hour", "slot", "connector", "outcome"], name="sourcehour_hour_slot_connector_outcome"
            ),
        ]


class TokenSourceDay(models.Model):
    """Billable vendor calls of one token on one UTC day. Only
    monitoring.source_statistics writes here."""

    # As for accounts.TokenDay.
    token = models.ForeignKey(
        "accounts.ApiToken", on_delete=models.DO_NOTHING, related_name="+", db_constraint=False, db_index=False
    )
    day = models.DateField()
    slot = models.CharField(max_length=16)
    connector = models.CharField(max_length=200)
    calls = models.BigIntegerField(default=0)

    class Meta:
        default_permissions = ()  # the page of revenue shows the cost by customer
        constraints = [
            models.UniqueConstraint(
                fields=["day", "token", "slot", "connector"], name="tokensourceday_day_token_slot_connector"
            )
        ]


class Source(SourceHour):
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
    """When a source last answered (`reason` empty) and last failed for each reason and hint. Only
    monitoring.source_statistics writes here. Holds no number and no data from a source."""

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


class RequestLogEntry(models.Model):
    """A request with a valid token: what came of it, and what each source did. Only monitoring.request_log writes here.

    Holds no number in clear, no name and no answer. Durations are in microseconds.
    """

    created_at = models.DateTimeField(help_text="When it was answered.")
    # No constraints: rows are written even if what they refer to is gone, and an insert looks nothing up.
    token = models.ForeignKey(
        ApiToken, on_delete=models.DO_NOTHING, related_name="+", db_constraint=False, db_index=False
    )
    request_id = models.CharField(max_length=64)
    status = models.SmallIntegerField(help_text="The HTTP status of the response.")
    outcome = models.CharField(max_length=16, help_text="One of accounts.request_statistics.OUTCOMES.")
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
    idempotency_key = models.BooleanField(
        null=True, help_text="Whether there was an Idempotency-Key; NULL in rows from before this was recorded."
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
            models.Index(fields=["status", "created_at"], condition=~Q(status=200), name="requestlog_status_created"),
            models.Index(fields=["created_at"], condition=~Q(failures=""), name="requestlog_failed_created"),
        ]

    def __str__(self) -> str:
        return f"Request {self.request_id}"
