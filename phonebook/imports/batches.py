"""The batches: what is recorded about each import, and for how long."""

from collections.abc import Collection, Iterable
from dataclasses import asdict
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.db import DatabaseError
from django.db.models import Max
from django.utils import timezone

from core import history, numbers, retention
from core.database_errors import describe
from phonebook.imports import CHANGE_STORES
from phonebook.imports.readers.base import Rejected, UnreadableFile
from phonebook.imports.staging import Counts, TargetTable
from phonebook.models import ImportBatch

#: An import that changes or removes more rows cannot be undone. Rows that it adds do not count.
MAX_CHANGES = 100_000
#: Rejected and repeated rows that a batch lists.
MAX_FAULTS = 50
#: How long its rejected rows are kept.
FAULT_DAYS = 30
#: A process that has not ended an import in this time was killed.
_LONGEST = timedelta(days=1)
INTERRUPTED = "Interrupted."

#: Data sets that an import recorded, by name: the row before it, or None, and after it (ImportBatch.data_sets).
Recorded = dict[str, list[dict[str, Any] | None]]


class Stopped(Exception):
    """The import was ended by others, such as `forget`, before it wrote, or because its process seemed to be killed."""


def start(kind: str, *, options: dict[str, Any], by: str = "", file_name: str = "") -> ImportBatch:
    """Record that an import begins. `by`: a user's name; empty for whoever runs this command."""
    by, state = by or history.command_actor(), ImportBatch.State.RUNNING
    return ImportBatch.objects.create(kind=kind, state=state, by=by, options=options, file_name=file_name)


def add_fault(faults: list[dict[str, Any]], file: str, row: Rejected) -> None:
    """Add a rejected or repeated row, whose number is masked, to those that a batch lists, if there is room. It has the
    name of its contact."""
    if len(faults) < MAX_FAULTS:
        fault = {name: getattr(row, name) for name in ("line", "reason", "number", "detail", "contact")}
        faults.append({"file": Path(file).name, **fault})


def begin_merge(batch: ImportBatch, table: TargetTable, counts: Counts) -> None:
    """Record what an undo needs. Call it in the lock of `table`, before anything is written. Raises Stopped."""
    # Nobody else has the lock: an earlier import that was writing was killed, and can be undone as far as it came.
    killed = ImportBatch.objects.filter(kind=batch.kind, state=ImportBatch.State.RUNNING, last_id__isnull=False)
    killed.exclude(pk=batch.pk).update(**failed_values(INTERRUPTED))
    batch.last_id = table.model._default_manager.aggregate(last=Max("pk"))["last"] or 0
    batch.can_undo = any(CHANGE_STORES) and counts.changed + counts.removed <= MAX_CHANGES
    batch.counts = {**numbers_of(counts), "planned": True}  # those of an import that is interrupted
    _save(batch, "last_id", "can_undo", "counts", "file_name")


def finish(batch: ImportBatch, result: Counts) -> None:
    """Record what the import did. Call it in the lock. Raises Stopped."""
    batch.state, batch.finished_at = ImportBatch.State.DONE, timezone.now()
    batch.counts = numbers_of(result)
    batch.can_undo = batch.can_undo and bool(met_rows(batch) or batch.data_sets)
    _save(batch, "state", "finished_at", "can_undo", "counts", "faults", "data_sets")


def _save(batch: ImportBatch, *names: str) -> None:
    running = ImportBatch.objects.filter(pk=batch.pk, state=ImportBatch.State.RUNNING)
    if not running.update(**{name: getattr(batch, name) for name in names}):
        raise Stopped


def error_text(error: BaseException) -> str:
    """For an operator; without what may be personal data."""
    match error:
        case UnreadableFile():
            return f"{error}."
        case DatabaseError():
            return f"{describe(error)}."
        case OSError():
            return f"{error.strerror or type(error).__name__}."
        case MemoryError():
            return "The file needs too much memory."
        case KeyboardInterrupt() | SystemExit() | Stopped():
            return INTERRUPTED
        case _:
            return f"{type(error).__name__}."


def fail(batch: ImportBatch, error: BaseException, *, committed: int) -> None:
    """Record that the import failed, after it wrote so many rows that stay."""
    text = error_text(error)
    if committed:
        text = f"{text[:400]} {committed:,} rows were written."
    can_undo = batch.can_undo and committed > 0
    counts = batch.counts if committed else {}
    failed = {**failed_values(text), "can_undo": can_undo, "counts": counts}
    failed |= {"faults": batch.faults, "file_name": batch.file_name}
    ImportBatch.objects.filter(pk=batch.pk, state=ImportBatch.State.RUNNING).update(**failed)


def met_rows(batch: ImportBatch) -> bool:
    """Whether the import added, changed or removed rows, or found them as they are in its files."""
    return any(batch.counts.get(name) for name in ("added", "changed", "removed", "unchanged"))


def numbers_of(counts: Counts) -> dict[str, Any]:
    """For ImportBatch.counts."""
    return {name: value for name, value in asdict(counts).items() if name != "days"}  # there may be thousands


def failed_values(error: str) -> dict[str, Any]:
    return {"state": ImportBatch.State.FAILED, "error": error[:500], "finished_at": timezone.now()}


def prune() -> int:
    """Delete batches after core.retention.KEPT_DAYS, and rejected rows after FAULT_DAYS. Returns how many batches were
    deleted."""
    now = timezone.now()
    running = ImportBatch.objects.filter(state=ImportBatch.State.RUNNING, created_at__lt=now - _LONGEST)
    running.update(**failed_values(INTERRUPTED))
    ImportBatch.objects.filter(created_at__lt=now - timedelta(days=FAULT_DAYS)).update(faults=[])
    expired = ImportBatch.objects.filter(created_at__lt=retention.oldest_kept())
    return retention.delete_in_batches(expired, retention.PRUNE_ROWS)


def holding(erased: Collection[str]) -> dict[int, dict[str, Any]]:
    """Of the batches that name these numbers, or list their masks as rejected, what to write instead."""
    found = {}
    masks = {numbers.mask(number) for number in erased}
    for batch in ImportBatch.objects.only("file_name", "error", "faults").iterator():
        faults = [
            row for row in batch.faults if row["number"] not in masks and not _has(row["file"] + row["detail"], erased)
        ]
        named = _has(batch.file_name + batch.error, erased)
        if named or len(faults) < len(batch.faults):
            found[batch.pk] = {"faults": faults, **({"file_name": "", "error": ""} if named else {})}
    return found


def erase(erased: Collection[str]) -> int:
    """Delete what the batches have about these numbers. Returns how many were changed."""
    return sum(ImportBatch.objects.filter(pk=pk).update(**values) for pk, values in holding(erased).items())


def _has(text: str, erased: Iterable[str]) -> bool:
    return any(number in text for number in erased)
