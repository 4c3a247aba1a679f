"""Files that are uploaded, and the rows that imports have changed. The tables are named after the app that had them."""

from django.conf import settings
from django.db import models
from django.utils import timezone

from phonebook.models import ComplaintSubject, ImportBatch, NumberField


class ImportUpload(models.Model):
    """A file that was uploaded in the console (contrib.uploads.uploads), until it is imported or discarded. Each user
    has one at a time. Personal data: never in a log or the History."""

    class State(models.TextChoices):
        UPLOADING = "uploading", "Being uploaded"
        CHECKING = "checking", "Being checked"
        READY = "ready", "Ready to import"
        FAILED = "failed", "Failed"
        IMPORTING = "importing", "Being imported"

    user = models.OneToOneField(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    kind = models.CharField(max_length=16, choices=ImportBatch.Kind)
    state = models.CharField(max_length=16, choices=State, default=State.UPLOADING)
    file_name = models.CharField(max_length=255)
    options = models.JSONField(default=dict, help_text="Of the import, such as the region.")
    size = models.PositiveIntegerField(help_text="In bytes.")
    received = models.PositiveIntegerField(default=0, help_text="Bytes of the parts.")
    created_at = models.DateTimeField(default=timezone.now)
    step = models.CharField(max_length=16, blank=True, help_text="What the process does.")
    done = models.PositiveIntegerField(null=True, help_text="Rows of the step; NULL: no process has begun.")
    total = models.PositiveIntegerField(null=True, help_text="Rows of the step, an estimate while the file is read.")
    seen_at = models.DateTimeField(default=timezone.now, help_text="When its process was last known to run.")
    counts = models.JSONField(default=dict, help_text="The ImportResult of the check.")
    faults = models.JSONField(default=list, help_text="The first rejected rows: line and reason.")
    preview = models.JSONField(default=list, help_text="Some rows that the import would change: before and after.")
    error = models.CharField(max_length=500, blank=True, help_text="Why the check failed.")
    batch = models.OneToOneField(
        ImportBatch, on_delete=models.CASCADE, null=True, related_name="upload", help_text="Once it is confirmed."
    )

    class Meta:
        db_table = "phonebook_importupload"
        default_permissions = ()


class ImportPart(models.Model):
    upload = models.ForeignKey(ImportUpload, on_delete=models.CASCADE, related_name="parts", db_index=False)
    offset = models.PositiveIntegerField(help_text="Of its first byte in the file.")
    content = models.BinaryField()

    class Meta:
        db_table = "phonebook_importpart"
        default_permissions = ()
        constraints = [models.UniqueConstraint(fields=["upload", "offset"], name="importpart_upload_offset")]


class ImportChange(models.Model):
    """A Contact or ComplaintDay that an import changed or removed, with the values before. Rows that the import added
    are those with its `import_batch` that have no ImportChange."""

    # The only index: one more, or a constraint, would cost an import about as much as the row itself.
    pk = models.CompositePrimaryKey("batch_id", "row_id")
    batch = models.ForeignKey(
        ImportBatch, on_delete=models.CASCADE, related_name="changes", db_constraint=False, db_index=False
    )
    row_id = models.BigIntegerField(help_text="The primary key of the row.")
    is_removed = models.BooleanField(default=False, help_text="The import removed the row.")
    # The columns of the row. As one value, such as JSON, they would cost an import twice as much.
    number = NumberField()
    name = models.CharField(max_length=200, null=True)
    location = models.CharField(max_length=200, null=True)
    updated_at = models.DateTimeField(null=True)
    book = models.CharField(max_length=32, null=True)
    source = models.CharField(max_length=32, null=True)
    day = models.DateField(null=True)
    total = models.IntegerField(null=True)
    robocalls = models.IntegerField(null=True)
    subject = models.ForeignKey(
        ComplaintSubject, on_delete=models.DO_NOTHING, null=True, related_name="+", db_constraint=False, db_index=False
    )
    import_batch = models.IntegerField(null=True)

    class Meta:
        db_table = "phonebook_importchange"
        default_permissions = ()
