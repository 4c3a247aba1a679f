"""Alerts, their mutes and recipients, and the notices that are sent."""

from datetime import datetime

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.functions import Lower, Now
from django.utils import timezone

from accounts.models import ApiToken
from contrib.alerts.group_titles import kind_title
from core import periods
from monitoring.health.registry import CRITICAL


def page_url(path: str) -> str | None:
    """That of the list of alerts, or of a page below it. Not by `reverse`: an instance for searches has no URLs of the
    console, and a command would import all its pages within a transaction, for which searches on SQLite wait."""
    return f"{settings.PUBLIC_URL}/{settings.ADMIN_PATH}/alerts/incident/{path}" if settings.PUBLIC_URL else None


class Incident(models.Model):
    """A condition that needs an operator, such as a failing source: from `opened_at` to `closed_at`. Written only by
    contrib.alerts.incidents. Holds no phone number; the texts name tokens and customers, so they are not logged."""

    kind = models.CharField(max_length=32, help_text="Such as source.failing: docs/alerts.md lists them.")
    subject = models.CharField(max_length=200, blank=True, help_text="A source, the id of a token, a data set, ...")
    title = models.CharField(max_length=250)
    summary = models.CharField(max_length=500, blank=True)
    hint = models.CharField(max_length=500, blank=True, help_text="What an operator can do.")
    first_seen_at = models.DateTimeField()
    last_seen_at = models.DateTimeField()
    opened_at = models.DateTimeField(null=True, help_text="Empty: the condition has not lasted long enough yet.")
    closed_at = models.DateTimeField(null=True)
    # The database's default is for rows of the version before: all of them were reported.
    notified_at = models.DateTimeField(
        null=True,
        db_default=Now(),
        help_text="When it was reported as open, or last reminded of; empty: not yet, because it was muted.",
    )
    ended_because = models.CharField(
        max_length=100,
        default="",
        db_default="",
        help_text="Such as: the source is paused. Empty: its condition was no longer seen.",
    )
    acknowledged_at = models.DateTimeField(null=True)
    acknowledged_by = models.CharField(max_length=150, default="", db_default="", help_text="A user name.")
    acknowledgement = models.CharField(max_length=200, default="", db_default="", help_text="The user's reason.")

    class Meta:
        db_table = "monitoring_incident"
        default_permissions = ("view",)
        permissions = (("handle_incident", "Can acknowledge and mute alerts"),)
        verbose_name = "alert"
        constraints = [
            models.UniqueConstraint(
                fields=["kind", "subject"], condition=Q(closed_at__isnull=True), name="incident_one_open"
            )
        ]

    #: Until when its notices are muted; None if they are not. Set by contrib.alerts.mutes.set_muted_until.
    muted_until: datetime | None = None

    def __str__(self) -> str:
        return self.title

    @property
    def severity(self) -> str:
        return "critical" if self.kind in CRITICAL else "warning"

    @property
    def handling(self) -> str:
        """Who has acknowledged it, and until when it is muted while it is open; empty if neither."""
        texts = [f"acknowledged by {self.acknowledged_by}"] if self.acknowledged_at else []
        if self.muted_until and not self.closed_at:
            texts.append(f"muted until {periods.shown(self.muted_until)}")
        return ", ".join(texts)


class AlertMute(models.Model):
    """No notices are written about alerts of this kind and subject until `until`. Written only by
    contrib.alerts.mutes."""

    kind = models.CharField(max_length=32)
    subject = models.CharField(max_length=200, blank=True, help_text="Empty: all alerts of the kind.")
    until = models.DateTimeField()
    created_by = models.CharField(max_length=150, help_text="A user name.")
    created_at = models.DateTimeField()
    reason = models.CharField(max_length=200, blank=True)

    #: Of the newest alert that it is about. Set by contrib.alerts.mutes.titled.
    title: str | None = None

    class Meta:
        db_table = "monitoring_alertmute"
        default_permissions = ()  # the page of alerts shows them
        constraints = [models.UniqueConstraint(fields=["kind", "subject"], name="alertmute_kind_subject")]

    def __str__(self) -> str:
        return self.title or self.subject if self.subject else f'All alerts of the kind "{kind_title(self.kind)}"'


class AlertRecipient(models.Model):
    """An address that gets alerts, in addition to those of the settings."""

    class Severities(models.TextChoices):
        ALL = "all", "all alerts"
        CRITICAL = "critical", "critical alerts only"

    email = models.EmailField("e-mail address")
    severities = models.CharField("receives", max_length=8, choices=Severities, default=Severities.ALL)
    is_active = models.BooleanField("active", default=True, help_text="Turn off to send nothing for a while.")
    note = models.CharField(max_length=200, blank=True, help_text="Such as whose address it is.")

    class Meta:
        db_table = "monitoring_alertrecipient"
        verbose_name = "alert recipient"
        constraints = [
            models.UniqueConstraint(
                Lower("email"),
                name="alertrecipient_email",
                violation_error_message="This address is an alert recipient already.",
            )
        ]

    def __str__(self) -> str:
        return self.email


class Notice(models.Model):
    """A message that `send_notices` sends by e-mail or webhook: the outbox (notices.py).

    BALANCE_LOW: a token's balance fell to its threshold; an e-mail goes to the token's contact, and a message to the
    webhook of its customer. For every other event and for the operator's webhooks, `target` and `payload` say where to
    and what, and `token` is empty.
    """

    class Event(models.TextChoices):
        BALANCE_LOW = "balance.low", "Low balance"
        INCIDENT_OPENED = "incident.opened", "Alert opened"
        INCIDENT_REMINDER = "incident.reminder", "Alert still open"
        INCIDENT_RESOLVED = "incident.resolved", "Alert resolved"
        TEST = "alert.test", "Test alert"

    class Channel(models.TextChoices):
        EMAIL = "email", "E-mail"
        WEBHOOK = "webhook", "Webhook"

    event = models.CharField(max_length=32, choices=Event, default=Event.BALANCE_LOW, db_default=Event.BALANCE_LOW)
    channel = models.CharField(max_length=8, choices=Channel, default=Channel.EMAIL, db_default=Channel.EMAIL)
    target = models.CharField(
        max_length=254, blank=True, default="", db_default="", help_text="An address, or a webhook's label."
    )
    payload = models.TextField(blank=True, default="", db_default="", help_text="JSON.")
    has_webhooks = models.BooleanField(
        default=False, db_default=False, help_text="Whether the notices to webhooks about this balance were written."
    )
    incident = models.ForeignKey(
        Incident, on_delete=models.CASCADE, null=True, related_name="notices", db_constraint=False, db_index=False
    )
    token = models.ForeignKey(ApiToken, on_delete=models.PROTECT, related_name="notices", null=True)
    threshold = models.PositiveBigIntegerField(null=True)
    balance = models.BigIntegerField(null=True)
    created_at = models.DateTimeField(default=timezone.now)
    due_at = models.DateTimeField(null=True, help_text="Time of the next attempt; empty when none will follow.")
    attempts = models.PositiveIntegerField(default=0)
    sent_at = models.DateTimeField(null=True)
    outcome = models.CharField(max_length=100, blank=True, help_text="Result of the last attempt.")

    class Meta:
        db_table = "accounts_notice"
        indexes = [
            models.Index(fields=["due_at"], condition=Q(due_at__isnull=False), name="notice_due"),
            models.Index(fields=["incident"], condition=Q(incident__isnull=False), name="notice_incident"),
        ]

    def __str__(self) -> str:
        return f"Notice #{self.pk}"

    @property
    def message_id(self) -> str:
        """The header `webhook-id`."""
        return f"msg_{self.pk}_{int(self.created_at.timestamp())}"
