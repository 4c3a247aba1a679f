"""The process of an uploaded file: it checks the file, or imports it, as a command would."""

import io
import signal
import threading
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any, Self

from django.db import Error, connection
from django.db.models import QuerySet
from django.utils import timezone
from django.utils.module_loading import import_string
from tqdm import tqdm

from contrib.uploads import RECEIVERS
from contrib.uploads.models import ImportUpload
from core import history
from core.db import fetch
from core.time_limit import time_limit
from phonebook.imports import batches
from phonebook.imports.complaints import ComplaintImport
from phonebook.imports.contacts import ContactImport
from phonebook.imports.files import TextFile, open_text
from phonebook.imports.pipeline import Import, counts_text
from phonebook.imports.readers.base import UnreadableFile
from phonebook.imports.staging import StagingTables, TargetTable
from phonebook.models import MAX_COUNT, ImportBatch

#: Of a file that is compressed.
MAX_UNPACKED_BYTES = 200 * 2**20
#: Rows that the preview stores, for its pages.
MAX_EXAMPLES = 1_000
#: Of a file that is checked, however few bytes it has.
CHECK_TIMEOUT_S = 900.0
HEARTBEAT_S = 2.0
State = ImportUpload.State


def process(upload_id: int) -> None:
    """Check or import an uploaded file, unless another process has begun with it. A failure is recorded, and raised."""
    begun = ImportUpload.objects.filter(pk=upload_id, done=None, state__in=(State.CHECKING, State.IMPORTING))
    if begun.update(done=0, seen_at=timezone.now()):
        upload = ImportUpload.objects.select_related("batch", "user").get(pk=upload_id)
        if upload.batch is None:
            _check(upload)
        else:
            _import(upload, upload.batch)


def _check(upload: ImportUpload) -> None:
    """Record what an import would do."""

    def on_compared(tables: StagingTables, table: TargetTable) -> None:
        upload.preview.extend(_examples(tables, table))

    checking = ImportUpload.objects.filter(pk=upload.pk, state=State.CHECKING)
    try:
        # What takes the file over deletes the upload, after the heartbeats of it.
        with ExitStack() as taken_over, _heartbeat(upload) as heartbeat, _deadline():
            if check := RECEIVERS.get(upload.kind):
                taken_over.enter_context(import_string(check)(upload, _opening(upload, heartbeat)))
            else:
                on_reject = partial(batches.add_fault, upload.faults)
                importer = _importer(upload, heartbeat, dry_run=True, on_reject=on_reject, on_compared=on_compared)
                counts = batches.numbers_of(importer.run(_files(upload, heartbeat)))
    except BaseException as error:
        with suppress(Error):
            upload.parts.all().delete()
            checking.update(state=State.FAILED, error=batches.error_text(error)[:500], faults=upload.faults)
        raise
    if not check:
        checking.update(state=State.READY, counts=counts, faults=upload.faults, preview=upload.preview)


def _import(upload: ImportUpload, batch: ImportBatch) -> None:
    importer: Import | None = None
    try:
        with _heartbeat(upload) as heartbeat:
            importer = _importer(upload, heartbeat, batch=batch, on_reject=lambda name, row: None)
            result = importer.run(_files(upload, heartbeat))
    except BaseException as error:
        with suppress(Error):
            batches.fail(batch, error, committed=importer.tables.committed if importer else 0)
        raise
    finally:
        with suppress(Error):
            upload.delete()
    message = f"Imported in the console: {counts_text(result, all_of_them=True)}."
    history.record(action=history.Action.IMPORT, target=batch, message=message, user=upload.user)


def _importer(upload: ImportUpload, heartbeat: "Heartbeat", **more: Any) -> Import:
    options = {name: value for name, value in upload.options.items() if name not in ("encoding", "format")}
    options |= {"format_name": upload.options.get("format"), "progress_bar": heartbeat.progress_bar}
    if upload.kind == ImportBatch.Kind.CONTACTS:
        return ContactImport(**options, **more)
    return ComplaintImport(today=datetime.now(UTC).date(), **options, **more)


def _files(upload: ImportUpload, heartbeat: "Heartbeat") -> Iterator[AbstractContextManager[TextFile]]:
    yield open_text(upload.file_name, **_opening(upload, heartbeat))


def _opening(upload: ImportUpload, heartbeat: "Heartbeat") -> dict[str, Any]:
    content = heartbeat.set_file(b"".join(upload.parts.order_by("offset").values_list("content", flat=True)))
    return {"encoding": upload.options.get("encoding"), "max_size": MAX_UNPACKED_BYTES, "content": content}


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
    return " · ".join(shown)


class _CheckTimeout(KeyboardInterrupt):
    """What runs then may catch an Exception."""


@contextmanager
def _deadline() -> Iterator[None]:
    """Raises UnreadableFile in the block after CHECK_TIMEOUT_S."""
    try:
        with time_limit(CHECK_TIMEOUT_S, _CheckTimeout):
            yield
    except _CheckTimeout:
        minutes = f"{CHECK_TIMEOUT_S / 60:g} minutes"
        raise UnreadableFile(f"the check took more than {minutes}: use the command instead") from None


def _heartbeat(upload: ImportUpload) -> "Heartbeat":
    return Heartbeat(ImportUpload.objects.filter(pk=upload.pk, state=upload.state))


class Heartbeat:
    """Records the progress of this process every HEARTBEAT_S, by a thread with a connection of its own: the import may
    be in a transaction. Interrupts the process when the row of `running` is gone, because its user has stopped it."""

    def __init__(self, running: QuerySet) -> None:
        self._file, self._size = io.BytesIO(), 0
        self._running = running
        self._bar: tqdm[Any] | None = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)

    def set_file(self, content: bytes) -> io.BytesIO:
        """The file that is read, whose position tells the progress."""
        self._file, self._size = io.BytesIO(content), len(content)
        return self._file

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
                if not self._running.update(seen_at=timezone.now(), **self._progress()):
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
        estimate = done * self._size // max(1, self._file.tell())
        return {"step": "Reading", "done": done, "total": min(max(done, estimate), MAX_COUNT)}
