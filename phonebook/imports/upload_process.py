"""The process of an uploaded file: it checks the file, or imports it, as a command would."""

import fcntl
import io
import os
import signal
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any, Self

from django.conf import settings
from django.db import Error, connection, transaction
from django.utils import timezone
from tqdm import tqdm

from core.db import VENDOR, fetch
from phonebook.imports import batches
from phonebook.imports.complaints import ComplaintImport
from phonebook.imports.contacts import ContactImport
from phonebook.imports.files import open_text
from phonebook.imports.pipeline import Import, ImportResult
from phonebook.imports.staging import StagingTables, TargetTable
from phonebook.models import MAX_COUNT, ImportBatch, ImportPart, ImportUpload

#: Of a file that is compressed.
MAX_UNPACKED_BYTES = 200 * 2**20
MAX_EXAMPLES = 10
HEARTBEAT_S = 2.0
State = ImportBatch.State


def process(batch_id: int) -> ImportResult | None:
    """Check or import the file of the batch, as its state says. Returns what was imported; None for a check, or if
    another process has begun with it. A failure is recorded, and deletes the file; an interruption keeps it."""
    if not ImportUpload.objects.filter(batch_id=batch_id, done=None).update(done=0, seen_at=timezone.now()):
        return None
    batch = ImportBatch.objects.get(pk=batch_id)
    is_check = batch.state == State.CHECKING
    importer: Import | None = None
    preview: list[dict[str, str]] = []
    try:
        with Heartbeat(batch_id) as heartbeat, _host_lock():
            parts = ImportPart.objects.filter(upload__batch=batch_id).order_by("offset")
            heartbeat.set_file(b"".join(parts.values_list("content", flat=True)))
            importer = _checker(batch, heartbeat, preview) if is_check else _confirmed(batch, heartbeat)
            _run(importer, batch, heartbeat)
    except BaseException as error:
        with suppress(Error):
            batches.fail(batch, error, committed=importer.tables.committed if importer else 0)
            if not isinstance(error, KeyboardInterrupt):
                ImportUpload.objects.filter(batch_id=batch_id).delete()
        raise
    # The heartbeat has stopped: it must not write into a row that the next process begins with.
    if is_check:
        _record_check(batch, importer.result, preview)
        return None
    ImportUpload.objects.filter(batch_id=batch_id).delete()
    return importer.result


def _checker(batch: ImportBatch, heartbeat: "Heartbeat", preview: list[dict[str, str]]) -> Import:
    """An import that changes nothing, lists rejected rows in the batch, and appends to `preview`."""

    def on_compared(tables: StagingTables, table: TargetTable) -> None:
        preview.extend(_examples(tables, table))

    on_reject = partial(batches.add_fault, batch)
    return _importer(batch, heartbeat, dry_run=True, on_reject=on_reject, on_compared=on_compared)


def _confirmed(batch: ImportBatch, heartbeat: "Heartbeat") -> Import:
    def on_compared(tables: StagingTables, table: TargetTable) -> None:
        """In the lock, for which `forget` waits: what it discarded is not written."""
        if not ImportUpload.objects.filter(batch=batch).exists():
            raise KeyboardInterrupt

    return _importer(batch, heartbeat, batch=batch, on_compared=on_compared)


def _record_check(batch: ImportBatch, result: ImportResult, preview: list[dict[str, str]]) -> None:
    with transaction.atomic():
        checked = ImportBatch.objects.filter(pk=batch.pk, state=State.CHECKING)  # else it was discarded
        if checked.update(state=State.READY, counts=batches.numbers_of(result), faults=batch.faults):
            ImportUpload.objects.filter(batch=batch).update(preview=preview)


def _importer(of: ImportBatch, heartbeat: "Heartbeat", **more: Any) -> Import:
    options = {name: value for name, value in of.options.items() if name not in ("encoding", "format")}
    options |= {"format_name": of.options.get("format"), "progress_bar": heartbeat.progress_bar}
    more.setdefault("on_reject", lambda name, row: None)  # the batch lists the first ones
    if of.kind == ImportBatch.Kind.CONTACTS:
        return ContactImport(**options, **more)
    return ComplaintImport(today=datetime.now(UTC).date(), **options, **more)


def _run(importer: Import, batch: ImportBatch, heartbeat: "Heartbeat") -> ImportResult:
    file = open_text(
        batch.file_name,
        encoding=batch.options.get("encoding"),
        max_size=MAX_UNPACKED_BYTES,
        content=heartbeat.file,
    )
    # In one transaction, because the service may be connected by a pooler, which keeps temporary tables no longer.
    with transaction.atomic() if VENDOR == "postgresql" else nullcontext():
        return importer.run([file])


def _examples(tables: StagingTables, table: TargetTable) -> Iterator[dict[str, str]]:
    """At most MAX_EXAMPLES rows that the import would change, remove or add: number and, as text, the rest of the row's
    key and its values before and after."""
    values = [name for name in table.values if name != "subject_id"]
    rest = [*table.key[1:], *values]
    written = f"FROM merged m LEFT JOIN {table.name} t ON {table.same_key('t', 'm')} WHERE m.deleted IS NULL AND "
    sources = {
        "changed": f"{written} t.id IS NOT NULL AND ({tables.differ(table, 't', 'm')})",
        "removed": f"FROM merged m JOIN {table.name} t ON t.id = m.deleted WHERE 1 = 1",
        "added": f"{written} t.id IS NULL",
    }
    left = MAX_EXAMPLES
    for what, source in sources.items():
        columns = ", ".join(f"{alias}.{name}" for alias in "tm" for name in rest)
        rows = fetch(f"SELECT m.number, {columns} {source} ORDER BY m.number LIMIT {left}")
        left -= len(rows)
        for number, *found in rows:
            before, after = (dict(zip(rest, half, strict=True)) for half in (found[: len(rest)], found[len(rest) :]))
            one = before if what != "added" else after
            yield {
                "number": str(number),
                "key": " ".join(str(one[name]) for name in table.key[1:]),
                "before": "" if what == "added" else _text(before, values),
                "after": "" if what == "removed" else _text(after, values),
            }


def _text(row: dict[str, Any], values: Iterable[str]) -> str:
    """The values of a row: texts as they are, and other columns with their names."""
    shown = [value if name in ("name", "location") else f"{name} {value}" for name in values if (value := row[name])]
    return ", ".join(shown)


@contextmanager
def _host_lock() -> Iterator[None]:
    """One process of an upload at a time works on this host."""
    settings.DATA_DIR.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open(os.open(settings.DATA_DIR / "uploads.lock", os.O_RDONLY | os.O_CREAT, 0o600), "rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


class Heartbeat:
    """Records the progress of this process every HEARTBEAT_S, by a thread with a connection of its own: the import may
    be in a transaction. Interrupts the process when its upload was discarded."""

    def __init__(self, batch_id: int) -> None:
        self.set_file(b"")
        self._upload = ImportUpload.objects.filter(batch_id=batch_id)
        self._bar: tqdm[Any] | None = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def set_file(self, content: bytes) -> None:
        self.file, self._size = io.BytesIO(content), len(content)

    def progress_bar(self, rows: Iterable[Any] = (), *, total: int | None = None, **_: Any) -> "tqdm[Any]":
        """In place of that of a terminal; nobody reads what it prints."""
        self._bar = tqdm(rows, total=total, file=io.StringIO(), leave=False)
        return self._bar

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(HEARTBEAT_S):
            try:
                if not self._upload.update(seen_at=timezone.now(), **self._progress()):
                    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGTERM)
                    break
            except Error:
                connection.close()  # the next update gets a new one
        connection.close()

    def _progress(self) -> dict[str, Any]:
        if self._bar is None:
            return {}
        done, total = self._bar.n, self._bar.total
        if total is not None:
            return {"step": "Writing", "done": done, "total": total}
        # Nobody knows yet how many rows there are: as many for each byte as until now.
        estimate = done * self._size // max(1, self.file.tell())
        return {"step": "Reading", "done": done, "total": min(max(done, estimate), MAX_COUNT)}
