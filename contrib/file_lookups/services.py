"""Files that users of the console look up at a token's expense: received by the upload of imports, and searched by a
process of their own (process.py). Every step is one guarded UPDATE of the state: of two requests at once, one
takes it.
"""

import json
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from itertools import islice
from operator import attrgetter, itemgetter
from typing import Any
from uuid import uuid4

import msgspec
from django.db import transaction
from django.db.models import Q, QuerySet, Sum
from django.utils import timezone

from accounts.models import ApiToken, CreditEntry
from contrib.file_lookups import batches, conf
from contrib.file_lookups.models import FileLookup, FileLookupRow
from contrib.file_lookups.number_file import COLUMNS, UNANSWERED, Record, Result, cells_of, open_numbers
from contrib.uploads import background_process, uploads
from contrib.uploads.models import ImportUpload
from contrib.uploads.upload_process import HEARTBEAT_S
from core import history
from core.commands import command_line
from core.csv_cells import in_parts
from core.db import yield_to_writers
from phonebook.imports.readers.base import UnreadableFile

#: Of ImportUpload.
KIND = "lookup"
#: Of who uploads and starts.
PERMISSIONS = ("file_lookups.add_filelookup", "accounts.view_apitoken")
MAX_ROWS = 100_000
#: Rows times columns: of the output, whose rows have all columns.
MAX_CELLS = 20_000_000
#: Of the rows of all look-ups.
MAX_STORED_BYTES = 2 * 2**30
KEPT = timedelta(days=conf.KEPT_DAYS)
#: Of rows that are read, written or deleted at once: while that happens, no other process writes to SQLite, and a slow
#: download holds them in memory. (One row may be larger.)
_BATCH_ROWS, _BATCH_BYTES = 500, 256 * 1024
#: Of a row without its cells.
_ROW_BYTES = 200
State = FileLookup.State
_USE_COMMAND = f"use {command_line('lookup_file')}"


class WrongState(ValueError):
    """The look-up cannot do this now; the message is for people."""


@contextmanager
def receive(upload: ImportUpload, opening: dict[str, Any]) -> Iterator[None]:
    """Take the file of an upload over, which is complete at the end of the block, unless the upload was deleted
    meanwhile, also by an erasure of numbers. Raises UnreadableFile."""
    chosen = {name: upload.options.get(name) for name in ("column", "region")}
    if waiting(upload.user):
        raise UnreadableFile("another file of yours is ready: start or discard it first")
    with open_numbers(upload.file_name, **chosen, **opening) as file:
        made = FileLookup(user=upload.user, file_name=upload.file_name, size=0)
        made.columns, made.delimiter = file.columns, file.delimiter
        made.save()
        here = FileLookup.objects.filter(pk=made.pk)
        most = min(MAX_ROWS, MAX_CELLS // len(file.columns))
        rows = (_row(made, record) for record in islice(file.records, most))
        try:
            for batch in _batches(rows, attrgetter("size")):
                made.size += sum(row.size for row in batch)
                here.update(seen_at=timezone.now(), size=made.size)
                if _stored_bytes() > MAX_STORED_BYTES:
                    raise UnreadableFile(f"there is no space for it: discard other files, or {_USE_COMMAND}")
                FileLookupRow.objects.bulk_create(batch)
                yield_to_writers()
            if next(file.records, None) is not None:
                raise UnreadableFile(f"the file has more than {most:,} rows: {_USE_COMMAND}")
            yield
            with transaction.atomic():
                if not uploads.discard(upload) or not here.update(state=State.READY, seen_at=timezone.now()):
                    raise UnreadableFile("it was discarded meanwhile")
        except BaseException:
            _delete(here)
            raise


def waiting(user: Any) -> FileLookup | None:
    """The user's file that is to be started or discarded before the next one is received."""
    return FileLookup.objects.filter(user=user.pk, state=State.READY).first()


def _stored_bytes() -> int:
    return FileLookup.objects.aggregate(total=Sum("size"))["total"] or 0


def _row(made: FileLookup, record: Record) -> FileLookupRow:
    number = int(record.number) if record.number else None
    values = {"line": record.line, "cells": record.cells, "number": number, "problem": record.problem}
    values["size"] = _ROW_BYTES + len(json.dumps(record.cells))
    return FileLookupRow(lookup=made, **values, outcome="pending" if number else "invalid")


def start(lookup: FileLookup, *, token: ApiToken, by: Any, url: str, host: str) -> None:
    """Search what has no answer yet, at the token's expense, while the user `by` may do so. `url` and `host`: where the
    service that starts it is reached, and its name. Raises WrongState."""
    run = uuid4().hex
    waiting = FileLookup.objects.filter(pk=lookup.pk, state__in=(State.READY, State.STOPPED))
    values = {"state": State.RUNNING, "error": "", "seen_at": timezone.now(), "run": run, "url": url, "host": host}
    if not waiting.update(token=token, started_by=by, waits_until=None, **values):
        raise WrongState("It runs already, or was deleted.")
    transaction.on_commit(partial(background_process.start, "process_lookup", str(lookup.pk), run))


def wait(lookup: FileLookup, wait_s: float) -> None:
    """Record that its process waits for the token's rate limit, so long that the page can show it."""
    if wait_s >= HEARTBEAT_S:
        until = timezone.now() + timedelta(seconds=wait_s)
        FileLookup.objects.filter(pk=lookup.pk, run=lookup.run).update(waits_until=until)


def stop(lookup: FileLookup) -> None:
    """Its process ends at its next heartbeat. Raises WrongState."""
    if not FileLookup.objects.filter(pk=lookup.pk, state=State.RUNNING).update(state=State.STOPPED, error="Stopped."):
        raise WrongState("It does not run.")


def discard(lookup: FileLookup) -> None:
    """Delete file and answers, outside a transaction. Raises WrongState while it runs."""
    if not _delete(FileLookup.objects.filter(pk=lookup.pk)):
        raise WrongState("It runs: stop it first.")


def _delete(which: QuerySet) -> int:
    """Delete those that do not run, their rows in short transactions. Returns how many."""
    deleted = 0
    for pk in list(which.values_list("pk", flat=True)):
        # It cannot be started any more; `prune` deletes what an interruption leaves.
        idle = which.filter(~Q(state=State.RUNNING), pk=pk)
        if idle.update(state=State.CHECKING, seen_at=timezone.now()):
            _delete_rows(_parts_of_file(pk))
            FileLookup.objects.filter(pk=pk).delete()
            deleted += 1
    return deleted


def _delete_rows(parts: Iterable[QuerySet]) -> int:
    """Delete each part in a short transaction. Returns how many rows there were."""
    deleted = 0
    for part in parts:
        deleted += part.delete()[0]
        yield_to_writers()
    return deleted


def keep(lookup: FileLookup, number: int, result: Result) -> None:
    """Store what was found about a number that was unanswered."""
    values = {"outcome": result.outcome, "result": msgspec.to_builtins(result)}
    for part in _parts_with_numbers(lookup.rows.filter(number=number, outcome__in=UNANSWERED)):
        part.update(**values)
        yield_to_writers()


def _batches(rows: Iterable[Any], size_of: Callable[[Any], int]) -> Iterator[list[Any]]:
    return batches.by_size(rows, size_of, max_items=_BATCH_ROWS, max_size=_BATCH_BYTES)


def _parts(rows: QuerySet, sizes: Iterable[tuple[int, int]]) -> Iterator[QuerySet]:
    """`rows`, of one look-up, as many at once as may be read or written. `sizes`: line and size of each."""
    for batch in _batches(sizes, itemgetter(1)):
        yield rows.filter(line__in=[line for line, _ in batch])


def _parts_of_file(lookup: int) -> Iterator[QuerySet]:
    """All rows, from the first line on."""
    rows, last = FileLookupRow.objects.filter(lookup=lookup), 0
    while sizes := list(rows.filter(line__gt=last).order_by("line").values_list("line", "size")[:_BATCH_ROWS]):
        yield from _parts(rows, sizes)
        last = sizes[-1][0]


def _parts_with_numbers(rows: QuerySet) -> Iterator[QuerySet]:
    """Of rows that the index of numbers finds, which are few. (By their lines, SQLite would read the whole file.)"""
    return _parts(rows, list(rows.values_list("line", "size")))


def unanswered(lookup: FileLookup) -> QuerySet:
    """The numbers to search, each once."""
    rows = lookup.rows.filter(outcome__in=UNANSWERED)
    return rows.order_by("number").values_list("number", flat=True).distinct()


def charged(lookup: FileLookup) -> int:
    """Credits that its searches have cost the token of the last start, without those that were refunded."""
    own = CreditEntry.objects.filter(token=lookup.token_id, request_id=lookup.request_id, kind=CreditEntry.Kind.SEARCH)
    found = own.filter(created_at__gte=lookup.created_at, refunded_by=None).aggregate(total=Sum("amount"))
    return -(found["total"] or 0)


def csv_lines(lookup: FileLookup) -> Iterator[str]:
    """The output, in parts: the file's columns, and number_file.COLUMNS."""
    return in_parts(_output(lookup), delimiter=lookup.delimiter)


def _output(lookup: FileLookup) -> Iterator[list[str]]:
    yield [*lookup.columns, *COLUMNS]
    for part in _parts_of_file(lookup.pk):
        for row in part.order_by("line"):
            yield cells_of(row.cells, len(lookup.columns), result(row))


def result(row: FileLookupRow) -> Result:
    number = str(row.number or "")
    return msgspec.convert(row.result, Result) if row.result else Result(number, row.outcome)


def record(lookup: FileLookup, user: Any, message: str, *, target: ApiToken | None = None) -> None:
    """In the History of the look-up, or of its token, without the file's name."""
    history.record(action=history.Action.LOOKUP, target=target or lookup, message=message, user=user)


def end_killed() -> None:
    """Look-ups whose process was killed have stopped."""
    killed = FileLookup.objects.filter(state=State.RUNNING, seen_at__lt=timezone.now() - uploads.HEARTBEAT_TIMEOUT)
    if killed.exists():  # a progress bar asks every 2 s
        killed.update(state=State.STOPPED, error="Interrupted.")


def incomplete() -> Q:
    """Those whose check or deletion was killed: nobody sees them, and `prune` deletes them."""
    return Q(state=State.CHECKING, seen_at__lt=timezone.now() - uploads.HEARTBEAT_TIMEOUT)


def prune() -> int:
    """Delete those that ended, or were uploaded, before KEPT, and incomplete ones. Returns how many."""
    end_killed()
    return _delete(FileLookup.objects.filter(Q(seen_at__lt=timezone.now() - KEPT) | incomplete()))


def _with_numbers(numbers: Collection[str]) -> QuerySet:
    return FileLookupRow.objects.filter(number__in=list(map(int, numbers)))


def count(numbers: Collection[str]) -> int:
    """How many rows `erase` would delete."""
    return _with_numbers(numbers).count()


def erase(numbers: Collection[str]) -> int:
    """Delete the rows with these numbers, outside a transaction. Returns how many. Called after the uploads are
    discarded, of which none can become a look-up any more."""
    rows = _with_numbers(numbers)
    lookups = list(rows.values_list("lookup", flat=True).distinct())
    return sum(_delete_rows(_parts_with_numbers(rows.filter(lookup=pk))) for pk in lookups)
