"""What is known about numbers. A number is a 64-bit integer: its digits with country code (E.164: at most 15)."""

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.utils import timezone

MAX_COUNT = 2**31 - 1


class NumberField(models.BigIntegerField):
    """A phone number: country code and number, 7 to 15 digits, without a leading zero."""

    default_validators = [MinValueValidator(1_000_000), MaxValueValidator(999_999_999_999_999)]


class Contact(models.Model):
    """A name, a place, or both, from the operator's directory. One per number."""

    number = NumberField(unique=True)
    name = models.CharField(max_length=200, blank=True)
    location = models.CharField(max_length=200, blank=True)
    updated_at = models.DateTimeField(auto_now=True)
    # The address book, of an add-on, that the row was published from, and whose next synchronization may change or
    # delete it. NULL: imported, or entered in the console.
    book = models.CharField("address book", max_length=32, null=True, editable=False)
    # The ImportBatch that wrote the row last; NULL: an earlier import, or a change in the console since.
    import_batch = models.IntegerField(null=True, editable=False)

    class Meta:
        permissions = [("erase_contact", "Can erase a number's data everywhere")]

    def __str__(self) -> str:
        return str(self.number)


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


class ImportBatch(models.Model):
    """One import of contacts or complaints: who, when, from which file, what it did, and, while `can_undo`, what its
    undo needs beside the rows that it changed (phonebook.imports.CHANGE_STORES). Personal data: file names and faults
    stay in this table, and never reach a log or the History."""

    class Kind(models.TextChoices):
        CONTACTS = "contacts", "Contacts"
        COMPLAINTS = "complaints", "Complaints"

    class State(models.TextChoices):
        RUNNING = "running", "Running"
        DONE = "done", "Done"
        FAILED = "failed", "Failed"
        UNDOING = "undoing", "Being undone"
        UNDONE = "undone", "Undone"

    kind = models.CharField(max_length=16, choices=Kind)
    state = models.CharField(max_length=16, choices=State)
    by = models.CharField(max_length=150, blank=True, help_text="Who ran the command.")
    file_name = models.CharField(max_length=255, blank=True, help_text="Of several files, the first one's.")
    options = models.JSONField(default=dict, help_text="Of the import, such as the region.")
    counts = models.JSONField(default=dict, help_text="The ImportResult.")
    faults = models.JSONField(default=list, help_text="The first rejected rows: line and reason.")
    error = models.CharField(max_length=500, blank=True)
    created_at = models.DateTimeField(default=timezone.now)
    finished_at = models.DateTimeField(null=True)
    can_undo = models.BooleanField(default=False, help_text="Whether its changes are stored.")
    last_id = models.BigIntegerField(
        null=True, help_text="The table's last id before it: added rows have greater ones."
    )
    undone_at = models.DateTimeField(null=True)
    undone_by = models.CharField(max_length=150, blank=True)
    undo = models.JSONField(null=True, help_text="The UndoResult, also of an undo that was interrupted.")
    data_sets = models.JSONField(default=dict, help_text="By name: the Dataset row before the import, and after it.")

    class Meta:
        default_permissions = ("view",)
        verbose_name, verbose_name_plural = "import", "imports"

    def __str__(self) -> str:
        return f"Import {self.pk}"


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
    # The ImportBatch that wrote the row last; NULL: an earlier import, or a change in the console since.
    import_batch = models.IntegerField(null=True, editable=False)

    class Meta:
        verbose_name, verbose_name_plural = "complaint count", "complaints"
        # For the rows that an import replaces, and for pruning.
        indexes = [models.Index(fields=["day", "source"], name="complaintday_day_source")]
        constraints = [
            models.UniqueConstraint(fields=["number", "source", "day"], name="complaintday_number_source_day"),
            models.CheckConstraint(
                condition=models.Q(robocalls__lte=models.F("total")),
                name="complaintday_robocalls_at_most_total",
                violation_error_message="Enter at most as many robocalls as complaints in total.",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.number} {self.day}"


class NumberRule(models.Model):
    """An operator rule for one number or, if it is a prefix, for every number that begins with it. It overrides every
    source. Of several rules for a number, the longest applies."""

    number = models.BigIntegerField(
        unique=True, validators=[MinValueValidator(1), MaxValueValidator(999_999_999_999_999)]
    )
    is_prefix = models.BooleanField(
        "prefix", default=False, db_default=False, help_text="Also for every longer number that begins with it."
    )
    spam = models.BooleanField(null=True, blank=True, help_text="Choose Unknown to use the sources.")
    name = models.CharField(max_length=200, blank=True, help_text="Leave empty to use the sources.")
    note = models.CharField(max_length=200, blank=True, help_text="For operators; never in a response.")
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        verbose_name = "rule"

    def __str__(self) -> str:
        return f"{self.number}…" if self.is_prefix else str(self.number)


class CacheVersion(models.Model):
    """A number whose data was corrected or erased (cache_versions.py): the version is part of the key of its cached
    vendor answers. Imports skip a suppressed one (suppression.py). Holds the number's keyed hash only
    (core.hashing)."""

    number_hash = models.BinaryField(max_length=32, primary_key=True)
    version = models.BigIntegerField()
    changed_at = models.DateTimeField(db_index=True)
    suppressed = models.BooleanField(default=False, help_text="Imports skip this number.")


class Dataset(models.Model):
    """The loaded version of a data set, so that an unchanged one is not loaded again."""

    name = models.CharField(max_length=64, primary_key=True)
    version = models.CharField(max_length=64)
    rows = models.PositiveIntegerField()
    loaded_at = models.DateTimeField(default=timezone.now)
