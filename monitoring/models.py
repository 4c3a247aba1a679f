"""What the service knows about itself: runs of tasks, and statistics of sources."""

from datetime import UTC, datetime

from django.db import models


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
    """When a source last answered (`reason` empty), last failed for each reason and hint, and was last resumed. Only
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
