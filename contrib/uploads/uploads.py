"""Files that are uploaded in the console: received in parts, checked by a process of their own
(contrib.uploads.upload_process), and imported by such a process once their user confirms it. Other add-ons receive
files of other kinds by the same steps: their check takes the file over (RECEIVERS).

Every step is one guarded UPDATE of the upload's state: of two requests at once, one takes it. The file is stored in the
database, so that any host can receive a part of it and run its process, and is deleted when the import ends.
"""

import threading
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from django.conf import settings
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.db.models import F, Q, QuerySet, Sum
from django.utils import timezone

from contrib.uploads import RECEIVERS, background_process
from contrib.uploads.models import ImportPart, ImportUpload
from phonebook.imports import batches
from phonebook.models import ImportBatch

MAX_BYTES = 20 * 2**20
#: Of the files of all users.
MAX_STORED_BYTES = 20 * MAX_BYTES
#: Of every part but the last: a slow connection sends it within BODY_TIMEOUT_S.
PART_BYTES = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
#: A process whose heartbeat is older than this counts as killed.
HEARTBEAT_TIMEOUT = timedelta(seconds=60)
#: How long a file is kept that nobody imports.
KEPT = timedelta(days=1)
#: Of the processes that this one has started, each of some 100 MB: in total, and of those that check. One import at a
#: time is into one table: another would wait for it.
MAX_PROCESSES, MAX_CHECKS = 3, 2

#: The uploads whose process this one has started: `checking`, or the kind of the import.
_running: dict[int, str] = {}
_starting = threading.Lock()

State = ImportUpload.State
_WAITS_TO_BE_IMPORTED = "You have a file waiting under Imports: import or discard it first."
_WAITS_TO_BE_TAKEN_OVER = "You have a file that is being checked on another page: wait for it, or discard it first."


class UploadRefused(Exception):
    """The message says why, and what to do."""


def begin(*, user: User, kind: str, file_name: str, size: int, options: dict[str, Any]) -> ImportUpload:
    """A new upload, in place of the one that this user has. Raises UploadRefused while that is being imported, and if
    it waits on another page."""
    end_killed()
    with transaction.atomic():
        waiting = ImportUpload.objects.filter(user=user, state__in=(State.CHECKING, State.READY)).first()
        if waiting is not None and (waiting.kind in RECEIVERS) is not (kind in RECEIVERS):
            raise UploadRefused(_WAITS_TO_BE_TAKEN_OVER if waiting.kind in RECEIVERS else _WAITS_TO_BE_IMPORTED)
        _delete(Q(user=user) & ~Q(state=State.IMPORTING))
        stored = ImportUpload.objects.exclude(state=State.FAILED).aggregate(total=Sum("size"))["total"] or 0
        if stored + size > MAX_STORED_BYTES:
            raise UploadRefused("Too many files are waiting to be imported. Try again later, or use the command.")
        try:
            with transaction.atomic():
                return ImportUpload.objects.create(
                    user=user, kind=kind, file_name=file_name, size=size, options=options
                )
        except IntegrityError:
            raise UploadRefused("Another file of yours is being uploaded or imported. Try again later.") from None


def append(upload: ImportUpload, *, offset: int, content: bytes) -> int:
    """Store a part, and start the check after the last one. Returns how many bytes are there. A part that is there
    already changes nothing. Raises UploadRefused."""
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
            _start(upload, State.UPLOADING, State.CHECKING)
    return upload.received


def confirm(upload: ImportUpload) -> ImportBatch:
    """Import a file that was checked. Raises UploadRefused."""
    with transaction.atomic():
        if not _start(upload, State.READY, State.IMPORTING):
            raise UploadRefused("This file is not waiting to be imported.")
        by = upload.user.get_username()
        upload.batch = batches.start(upload.kind, by=by, file_name=upload.file_name, options=upload.options)
        upload.save(update_fields=["batch"])
    return upload.batch


def discard(upload: ImportUpload) -> bool:
    """Delete a file that is not being imported. Returns whether there was one."""
    return bool(_delete(Q(pk=upload.pk) & ~Q(state=State.IMPORTING)))


def discard_all() -> int:
    """Delete all files, in the locks of their tables: an import that has not written yet stops. Returns how many."""
    return _delete(Q())


def count_all(numbers: Sequence[str]) -> int:
    """Each of the files may have these numbers."""
    return ImportUpload.objects.count()


def erase_all(numbers: Sequence[str]) -> int:
    return discard_all()


def prune() -> int:
    """Delete files that have waited for KEPT. Returns how many."""
    end_killed()
    return _delete(Q(created_at__lt=timezone.now() - KEPT) & ~Q(state=State.IMPORTING))


def end_killed() -> None:
    """Checks and imports whose process was killed have failed."""
    now = timezone.now()
    killed = Q(seen_at__lt=now - HEARTBEAT_TIMEOUT, done__isnull=False) | Q(seen_at__lt=now - KEPT)
    checks = ImportUpload.objects.filter(killed, state=State.CHECKING)
    for pk in list(checks.values_list("pk", flat=True)):
        if checks.filter(pk=pk).update(state=State.FAILED, error=batches.INTERRUPTED):
            ImportPart.objects.filter(upload=pk).delete()
    _delete(killed & Q(state=State.IMPORTING))


def _delete(which: Q) -> int:
    """Delete uploads, each in a transaction. A process whose upload is deleted stops at its next heartbeat, or before
    it writes, because its import has failed. Returns how many."""
    return sum(_delete_one(which, pk) for pk in list(ImportUpload.objects.filter(which).values_list("pk", flat=True)))


@transaction.atomic
def _delete_one(which: Q, pk: int) -> bool:
    upload = ImportUpload.objects.select_for_update().filter(which, pk=pk).first()
    if upload is None:
        return False
    running = ImportBatch.objects.filter(upload=upload, state=ImportBatch.State.RUNNING)
    running.update(**batches.failed_values(batches.INTERRUPTED))
    upload.delete()
    return True


def _start(upload: ImportUpload, before: str, after: str) -> bool:
    """Let a process begin with the upload, unless its state is not `before`."""
    started: dict[str, Any] = {"state": after, "seen_at": timezone.now(), "done": None, "total": None, "step": ""}
    if not ImportUpload.objects.filter(pk=upload.pk, state=before).update(**started):
        return False
    transaction.on_commit(run_waiting)
    return True


def waiting() -> QuerySet:
    """Uploads with which no process has begun, the oldest first."""
    return ImportUpload.objects.filter(state__in=(State.CHECKING, State.IMPORTING), done=None).order_by("seen_at", "pk")


def run_waiting() -> None:
    """Start processes for waiting uploads, as far as this process may have more. The pages of an upload call this too:
    the process that it waited for may have been restarted."""
    with _starting:
        for pk, state, kind, seen_at in (
            waiting().exclude(pk__in=_running).values_list("pk", "state", "kind", "seen_at")
        ):
            process_kind = state if state == State.CHECKING else kind
            most = MAX_CHECKS if state == State.CHECKING else 1
            if len(_running) < MAX_PROCESSES and Counter(_running.values())[process_kind] < most:
                background_process.start("process_import", str(pk), on_end=partial(_ended, pk, seen_at))
                _running[pk] = process_kind


def _ended(pk: int, seen_at: datetime) -> None:
    """A process has ended. If it has not begun with its upload, it counts as killed: it would end like this again."""
    with _starting:
        del _running[pk]
    unknown = timezone.now() - KEPT - HEARTBEAT_TIMEOUT
    if waiting().filter(pk=pk, seen_at=seen_at).update(seen_at=unknown):
        end_killed()
    run_waiting()
