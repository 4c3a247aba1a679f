"""The request log."""

from django.db import models
from django.db.models import Q

from accounts.models import ApiToken, CreditEntry


class RequestLogEntry(models.Model):
    """A request with a valid token: what came of it, and what each source did. Only `log` writes here.

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
        db_table = "monitoring_requestlogentry"
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
