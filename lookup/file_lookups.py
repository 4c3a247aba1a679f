"""Files that users of the console look up at a token's expense: received by the upload of imports, and searched by a
process of their own (file_lookup_process). Every step is one guarded UPDATE of the state: of two requests at once, one
takes it.
"""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from itertools import islice
from typing import Any
from uuid import uuid4

import msgspec
from django.db import transaction
from django.db.models import Q, QuerySet, Sum
from django.utils import timezone

from accounts.models import ApiToken, CreditEntry
from core import background_process, history
from core.commands import command_line
from core.csv_cells import in_parts
from core.retention import PRUNE_ROWS, delete_in_batches
from lookup.models import FileLookup, FileLookupRow
from lookup.number_file import COLUMNS, Record, Result, cells_of, open_numbers
from phonebook.imports import uploads
from phonebook.imports.readers.base import UnreadableFile
from phonebook.models import ImportUpload

#: Of ImportUpload.
KIND = "lookup"
#: Of who uploads and starts.
PERMISSIONS = ("lookup.add_filelookup", "accounts.view_apitoken")
MAX_ROWS = 100_000
#: Rows times columns: of the output, whose rows have all columns.
MAX_CELLS = 20_000_000
#: How long file and results are kept after the last step.
KEPT = timedelta(days=7)
#: Rows that are read or written at once, each of at most csv_rows.MAX_RECORD characters.
_BATCH = 50
State = FileLookup.State


class WrongState(ValueError):
    """The look-up cannot do this now; the message is for people."""


@contextmanager
def receive(upload: ImportUpload, opening: dict[str, Any]) -> Iterator[None]:
    """Take the file of an upload over, which is complete at the end of the block, unless the upload was deleted
    meanwhile, also by an erasure of numbers. Raises UnreadableFile."""
    chosen = {name: upload.options.get(name) for name in ("column", "region")}
    with open_numbers(upload.file_name, **chosen, **opening) as file:
        made = FileLookup(user=upload.user, file_name=upload.file_name)
        made.columns, made.delimiter = file.columns, file.delimiter
        made.save()
        here = FileLookup.objects.filter(pk=made.pk)
        most = min(MAX_ROWS, MAX_CELLS // len(file.columns))
        rows = (_row(made, record) for record in islice(file.records, most))
        try:
            while batch := list(islice(rows, _BATCH)):
                FileLookupRow.objects.bulk_create(batch)
                here.update(seen_at=timezone.now())
            if next(file.records, None) is not None:
                raise UnreadableFile(f"the file has more than {most:,} rows: use {command_line('lookup_file')}")
            yield
            with transaction.atomic():
                if not uploads.discard(upload) or not here.update(state=State.READY, seen_at=timezone.now()):
                    raise UnreadableFile("it was discarded meanwhile")
        except BaseException:
            here.delete()
            raise


def _row(made: FileLookup, record: Record) -> FileLookupRow:
    number = int(record.number) if record.number else None
    values = {"line": record.line, "cells": record.cells, "number": number, "problem": record.problem}
    return FileLookupRow(lookup=made, **values, outcome="pending" if number else "invalid")


def start(lookup: FileLookup, *, token: ApiToken, by: Any, url: str, host: str) -> None:
    """Search what has no answer yet, at the token's expense, while the user `by` may do so. `url` and `host`: where the
    service that starts it is reached, and its name. Raises WrongState."""
    run = uuid4().hex
    waiting = FileLookup.objects.filter(pk=lookup.pk, state__in=(State.READY, State.STOPPED))
    values = {"state": State.RUNNING, "error": "", "seen_at": timezone.now(), "run": run, "url": url, "host": host}
    if not waiting.update(token=token, started_by=by, **values):
        raise WrongState("It runs already, or was deleted.")
    transaction.on_commit(partial(background_process.start, "process_lookup", str(lookup.pk), run))


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
        # It cannot be started any more; end_killed deletes what an interruption leaves.
        idle = which.filter(~Q(state=State.RUNNING), pk=pk)
        if idle.update(state=State.CHECKING, seen_at=timezone.now()):
            delete_in_batches(FileLookupRow.objects.filter(lookup=pk).order_by("line"), PRUNE_ROWS)
            FileLookup.objects.filter(pk=pk).delete()
            deleted += 1
    return deleted


def unanswered(lookup: FileLookup) -> QuerySet:
    """The numbers to search, each once."""
    rows = lookup.rows.filter(outcome__in=("pending", "failed"))
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
    line = 0
    while found := list(lookup.rows.filter(line__gt=line).order_by("line")[:_BATCH]):
        for row in found:
            yield cells_of(row.cells, len(lookup.columns), result(row))
        line = found[-1].line


def result(row: FileLookupRow) -> Result:
    number = str(row.number or "")
    return msgspec.convert(row.result, Result) if row.result else Result(number, row.outcome)


def record(lookup: FileLookup, user: Any, message: str, *, target: ApiToken | None = None) -> None:
    """In the History of the look-up, or of its token, without the file's name."""
    history.record(action=history.Action.LOOKUP, target=target or lookup, message=message, user=user)


def end_killed() -> None:
    """Look-ups whose process was killed have stopped."""
    working, before = (State.RUNNING, State.CHECKING), timezone.now() - uploads.HEARTBEAT_TIMEOUT
    killed = FileLookup.objects.filter(state__in=working, seen_at__lt=before)
    if killed.exists():  # a progress bar asks every 2 s
        killed.filter(state=State.RUNNING).update(state=State.STOPPED, error="Interrupted.")
        killed.filter(state=State.CHECKING).delete()


def prune() -> int:
    """Delete those that ended, or were uploaded, before KEPT. Returns how many."""
    end_killed()
    return _delete(FileLookup.objects.filter(seen_at__lt=timezone.now() - KEPT))


def erase(erased: Collection[str]) -> int:
    """Delete the rows with these numbers. Returns how many."""
    return FileLookupRow.objects.filter(number__in=map(int, erased)).delete()[0]
