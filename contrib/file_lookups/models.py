"""The files that users of the console look up. The tables' names are from when they were the kernel's."""

from collections import Counter

from django.conf import settings
from django.db import models
from django.utils import timezone
from django.utils.functional import cached_property

from accounts.models import ApiToken


class FileLookup(models.Model):
    """A file of numbers that a user of the console has uploaded, to look them up at a token's expense
    (services.py). Personal data: never in a log or the History."""

    class State(models.TextChoices):
        CHECKING = "checking", "Being checked"
        READY = "ready", "Ready to start"
        RUNNING = "running", "Running"
        STOPPED = "stopped", "Stopped"
        DONE = "done", "Done"

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    token = models.ForeignKey(
        ApiToken, on_delete=models.PROTECT, null=True, related_name="+", help_text="Of the last start."
    )
    started_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    state = models.CharField(max_length=16, choices=State, default=State.CHECKING)
    error = models.CharField(max_length=500, blank=True, help_text="Why it stopped.")
    file_name = models.CharField(max_length=255)
    columns = models.JSONField(default=list)
    delimiter = models.CharField(max_length=1)
    size = models.BigIntegerField(db_default=0, help_text="Bytes of its rows.")
    created_at = models.DateTimeField(default=timezone.now)
    seen_at = models.DateTimeField(default=timezone.now, help_text="When its process was last known to run.")
    waits_until = models.DateTimeField(null=True, help_text="When the token's rate limit admits its next search.")
    run = models.CharField(max_length=32, blank=True, help_text="Identifies its process.")
    url = models.CharField(max_length=200, blank=True, help_text="The address of the service that started it.")
    host = models.CharField(max_length=255, blank=True, help_text="The Host header for that address.")

    class Meta:
        db_table = "lookup_filelookup"
        default_permissions = ("add", "view")
        verbose_name = "file look-up"
        verbose_name_plural = "file look-ups"

    def __str__(self) -> str:
        return f"File look-up {self.pk}"

    @property
    def request_id(self) -> str:
        """The X-Request-ID of its searches."""
        return f"look-up-{self.pk}"

    @cached_property
    def figures(self) -> Counter[str]:
        """How many rows have each outcome. Read once."""
        return Counter(dict(self.rows.values_list("outcome").annotate(count=models.Count("*"))))


class FileLookupRow(models.Model):
    """A row of the file. `number`: NULL if it has none, for the reason `problem`."""

    lookup = models.ForeignKey(FileLookup, on_delete=models.CASCADE, related_name="rows", db_index=False)
    line = models.PositiveIntegerField()
    cells = models.JSONField(default=list)
    number = models.BigIntegerField(null=True)
    problem = models.CharField(max_length=200, blank=True)
    outcome = models.CharField(max_length=16, default="pending", help_text="One of number_file.OUTCOMES.")
    result = models.JSONField(default=dict, help_text="The number_file.Result of an answer.")
    # Rows of earlier versions count as 1,024 bytes, because those did not record the size. No PositiveIntegerField: to
    # add its constraint, PostgreSQL reads the whole table, which nothing else can use meanwhile.
    size = models.IntegerField(db_default=1024, help_text="Bytes that it takes in the database, about.")

    class Meta:
        db_table = "lookup_filelookuprow"
        default_permissions = ()
        constraints = [models.UniqueConstraint(fields=["lookup", "line"], name="filelookuprow_line")]
        indexes = [
            models.Index(fields=["number", "lookup"], name="filelookuprow_number"),
            # What pages count and the search updates is found without the rows, of which some have 256 KiB.
            models.Index(fields=["lookup", "outcome", "number", "line", "size"], name="filelookuprow_outcome"),
        ]
