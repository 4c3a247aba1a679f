"""What operators have done with sources."""

from django.db import models
from django.utils import timezone


class SourcePause(models.Model):
    """A source that an operator has paused: no process calls it. Written only by lookup.source_actions."""

    connector = models.CharField(max_length=200, primary_key=True)
    reason = models.CharField(max_length=200)
    paused_by = models.CharField(max_length=150)
    paused_at = models.DateTimeField(default=timezone.now)

    class Meta:
        default_permissions = ()  # `Source` has the permission to pause
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
