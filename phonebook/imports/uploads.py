"""Files that are uploaded in the console: received in parts, checked by a process of their own
(phonebook.imports.upload_process), and imported by such a process once their user confirms it.

Every step is one guarded UPDATE of the batch's state: of two requests at once, one takes it. The file is stored in the
database, so that any host can receive a part of it and run its process, and is deleted when the import ends.
"""

import os
import subprocess
import sys
from datetime import timedelta
from functools import partial
from threading import Thread
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction
from django.db.models import F, Q
from django.utils import timezone

from phonebook.imports import batches
from phonebook.models import ImportBatch, ImportPart, ImportUpload

MAX_BYTES = 20 * 2**20
#: Of every part but the last: a slow connection sends it within BODY_TIMEOUT_S.
PART_BYTES = 256 * 2**10
#: A process whose heartbeat is older than this counts as killed.
HEARTBEAT_TIMEOUT = timedelta(seconds=60)
#: How long a file is kept that nobody imports.
KEPT = timedelta(days=1)

State = ImportBatch.State
#: Nothing has been changed yet.
WAITING = (State.UPLOADING, State.CHECKING, State.READY)
_WITH_PROCESS = (State.CHECKING, State.RUNNING)
_ANOTHER = "Another upload of yours began at the same time. Try again."


class UploadRefused(Exception):
    """The message says why, and what to do."""


def begin(*, kind: str, by: str, file_name: str, size: int, options: dict[str, Any]) -> ImportBatch:
    """A new upload, in place of the one that this user has waiting. Raises UploadRefused."""
    with transaction.atomic():
        _discard(Q(owner=by))
        batch = ImportBatch.objects.create(
            kind=kind, state=State.UPLOADING, by=by, file_name=file_name, options=options
        )
        try:
            with transaction.atomic():
                ImportUpload.objects.create(batch=batch, owner=by, size=size)
        except IntegrityError:
            raise UploadRefused(_ANOTHER) from None
    return batch


def append(*, batch_id: int, by: str, offset: int, content: bytes) -> int:
    """Store a part, and start the check after the last one. Returns how many bytes are there. A part that is there
    already changes nothing. Raises UploadRefused, and ImportUpload.DoesNotExist unless it is this user's."""
    upload = ImportUpload.objects.get(batch_id=batch_id, owner=by)
    is_part = 0 <= offset < upload.size and offset % PART_BYTES == 0
    if not is_part or len(content) != min(PART_BYTES, upload.size - offset):
        raise UploadRefused("This is no part of the file. Upload the file again.")
    with transaction.atomic():
        here = ImportUpload.objects.filter(pk=upload.pk, received=offset)
        if here.update(received=F("received") + len(content)):
            ImportPart.objects.create(upload=upload, offset=offset, content=content)
        elif not ImportPart.objects.filter(upload=upload, offset=offset, content=content).exists():
            raise UploadRefused("This part is not the next one. Upload the file again.")
        upload.refresh_from_db(fields=["received"])
    if upload.received == upload.size:
        _start(batch_id, State.UPLOADING, State.CHECKING)
    return upload.received


def confirm(*, batch_id: int, by: str) -> None:
    """Import a file that was checked. Raises UploadRefused."""
    if not _start(batch_id, State.READY, State.RUNNING, by=by, faults=[], counts={}):
        raise UploadRefused("This file is not waiting to be imported.")


def restart(*, batch_id: int, by: str) -> ImportBatch:
    """Check an interrupted file again, as a new batch: what an interrupted import has written stays with its own, which
    can be undone. Raises UploadRefused."""
    with transaction.atomic():
        old = ImportBatch.objects.select_for_update().filter(pk=batch_id, by=by).first()
        if old is None or not is_interrupted(old):
            raise UploadRefused("This import is not interrupted.")
        _discard(Q(owner=by) & ~Q(batch=old))
        batch = ImportBatch.objects.create(
            kind=old.kind, state=State.UPLOADING, by=by, file_name=old.file_name, options=old.options
        )
        try:
            with transaction.atomic():
                ImportUpload.objects.filter(batch=old).update(batch=batch, owner=by, preview=None)
        except IntegrityError:
            raise UploadRefused(_ANOTHER) from None
        _end(old)
    _start(batch.pk, State.UPLOADING, State.CHECKING)
    return batch


def discard(*, batch_id: int, by: str) -> bool:
    """Delete the file of a batch, and the batch if that has imported nothing. Returns whether there was one."""
    return bool(_discard(Q(batch_id=batch_id, batch__by=by)))


def discard_all() -> int:
    """Delete all files, in the locks of their tables: an import that has not written yet stops. Returns how many."""
    return _discard(Q(), running=True)


def prune() -> int:
    """Delete files that have waited for KEPT. Returns how many."""
    return _discard(Q(batch__created_at__lt=timezone.now() - KEPT))


def is_interrupted(batch: ImportBatch) -> bool:
    """Whether the batch has a file, and its process was killed or has failed."""
    upload = getattr(batch, "upload", None)
    if upload is None:
        return False
    return batch.state == State.FAILED or (
        batch.state in _WITH_PROCESS and upload.seen_at < timezone.now() - HEARTBEAT_TIMEOUT
    )


def _discard(which: Q, *, running: bool = False) -> int:
    """Delete uploads, except those of running imports unless `running`. A process whose upload is deleted stops at its
    next heartbeat. Returns how many."""
    deleted, found = 0, ImportUpload.objects.filter(which)
    for batch_id in list(found.values_list("batch", flat=True)):
        with transaction.atomic():
            # Locked, so that it is not confirmed or started again at the same time.
            batch = ImportBatch.objects.select_for_update().filter(pk=batch_id).first()
            if batch is None or (batch.state == State.RUNNING and not running and not is_interrupted(batch)):
                continue
            if found.filter(batch=batch).delete()[0]:
                _end(batch)
                deleted += 1
    return deleted


def _end(batch: ImportBatch) -> None:
    """Delete a batch that has imported nothing; one that was interrupted has failed."""
    if batch.state in WAITING:
        batch.delete()
    elif batch.state == State.RUNNING:
        ImportBatch.objects.filter(pk=batch.pk).update(**batches.failed_values(batches.INTERRUPTED))


def _start(batch_id: int, before: str, after: str, *, by: str | None = None, **values: Any) -> bool:
    """Start a process for the batch, unless its state is not `before`, or it is another user's."""
    with transaction.atomic():
        found = ImportBatch.objects.filter(pk=batch_id, state=before, **({"by": by} if by else {}))
        if not found.update(state=after, **values):
            return False
        started: dict[str, Any] = {"seen_at": timezone.now(), "done": None, "total": None, "step": ""}
        if after == State.RUNNING:
            started |= {"owner": None, "preview": None}
        ImportUpload.objects.filter(batch_id=batch_id).update(**started)
        transaction.on_commit(partial(_run_process, batch_id))
    return True


def _run_process(batch_id: int) -> None:
    """Run `process_import`. A thread would take time of the interpreter from searches; the session of its own keeps
    Ctrl-C from it."""
    # A command has not the limits of a process that serves.
    environment = {name: value for name, value in os.environ.items() if name != "CALLERID_SERVING"}
    process = subprocess.Popen(
        [sys.executable, str(settings.BASE_DIR / "manage.py"), "process_import", str(batch_id)],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    Thread(target=process.wait, name=f"import {batch_id}", daemon=True).start()  # leaves no zombie
