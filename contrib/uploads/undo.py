"""Undoes an import: restores the rows that it changed, puts back those that it removed, deletes those that it added.

Rows that were changed since are left. A later import that met the same rows is undone first (`problem`). An
ImportChange is deleted once its row is as it was before the import, so those that remain after an undo are of rows that
were left; an interrupted undo continues with those that remain.
"""

# ruff: noqa: S608 (statements are built from names in the code; values are bound)

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import NamedTuple

from django.contrib.auth.base_user import AbstractBaseUser
from django.db import connection, transaction
from django.db.models import Exists, F, Max, OuterRef, Q, QuerySet
from django.utils import timezone

from contrib.uploads.models import ImportChange
from core import history, retention
from core.db import fetch, fetch_one, run, yield_to_writers
from phonebook.imports import batches, data_sets
from phonebook.imports.batches import MAX_CHANGES, met_rows
from phonebook.imports.complaints import COMPLAINTS
from phonebook.imports.contacts import CONTACTS
from phonebook.imports.staging import StagingTables, Tables, TargetTable
from phonebook.models import ComplaintDay, Dataset, ImportBatch

TABLES: dict[str, TargetTable] = {ImportBatch.Kind.CONTACTS: CONTACTS, ImportBatch.Kind.COMPLAINTS: COMPLAINTS}
#: How long an import can be undone.
UNDO_DAYS = 30
#: Rows that were left, on the page of an import.
MAX_LISTED = 20
_CHANGES = ImportChange._meta.db_table


class CannotUndo(Exception):
    """The import cannot be undone; the message says why."""


@dataclass(slots=True)
class UndoResult:
    """Numbers of rows: changed ones that were `restored`, removed ones that were `put_back`, added ones that were
    `deleted`, and those that were `left`, because they were changed or deleted since."""

    restored: int = 0
    put_back: int = 0
    deleted: int = 0
    left: int = 0

    def __str__(self) -> str:
        return (
            f"{self.restored:,} restored, {self.put_back:,} put back, {self.deleted:,} deleted, "
            f"{self.left:,} left because they were changed since"
        )


class Problem(NamedTuple):
    """Why an import cannot be undone; empty if it can. `later`: the import with which the reason begins, if any."""

    reason: str = ""
    later: ImportBatch | None = None


def problem(batch: ImportBatch) -> Problem:
    if batch.state == ImportBatch.State.UNDONE:
        return Problem("It was undone.")
    if batch.can_undo:
        later = blocking_import(batch)
        if later is None:
            return Problem()
        then = ": undo it first." if later.can_undo else ", and cannot be undone."
        return Problem(f"Import {later.pk} came later{then}", later)
    if batch.finished_at is None:
        return Problem("It has not finished.")
    if not met_rows(batch):
        return Problem("Nothing to undo.")
    if batch.counts.get("changed", 0) + batch.counts.get("removed", 0) > MAX_CHANGES:
        return Problem(f"It changed or removed more than {MAX_CHANGES:,} rows.")
    return Problem(f"Imports can be undone for {UNDO_DAYS} days.")


def blocking_import(batch: ImportBatch) -> ImportBatch | None:
    """The newest import that may build on this one: a later one of its kind that is not undone, and that changed or
    removed rows of this one, or found rows as they are in its files, which may be rows of this one. None if there is
    none.

    Later is what was written later: an import has its id before it waits for the lock.
    """
    if batch.finished_at is None:  # killed while it wrote: the next import's begin_merge would have set it
        return None
    own_rows = ImportChange.objects.filter(batch=OuterRef("pk"), import_batch=batch.pk)
    not_stored = Q(can_undo=False) & (Q(counts__changed__gt=0) | Q(counts__removed__gt=0))
    met = Q(counts__unchanged__gt=0) | not_stored
    if batch.counts.get("removed"):
        met |= Q(counts__added__gt=0)  # perhaps the same rows
    met |= Q(Exists(own_rows))
    since = Q(finished_at=None) | Q(finished_at__gt=batch.finished_at)
    written = ImportBatch.objects.filter(kind=batch.kind, last_id__isnull=False)
    later = written.filter(since, met).exclude(state=ImportBatch.State.UNDONE)
    return later.order_by(F("finished_at").desc(nulls_first=True)).first()


def preview(*, batch_id: int) -> UndoResult:
    """What `undo` would do now. Raises CannotUndo and ImportBatch.DoesNotExist."""
    batch = _undoable(batch_id)
    with Tables() as tables:
        return _compare(tables, TABLES[batch.kind], batch)


def undo(*, batch_id: int, by: str, wait: bool = True) -> UndoResult:
    """Undo an import, or the rest of an interrupted undo. `by`: the user's name.

    On PostgreSQL this is one transaction. On SQLite, where searches write too, each part is one, followed by a pause.
    Raises CannotUndo, ImportBatch.DoesNotExist and, unless it may `wait` for an import, LockNotAvailable.
    """
    table = TABLES[ImportBatch.objects.get(pk=batch_id).kind]
    with Tables() as tables, tables.lock(table, wait=wait):
        batch = _undoable(batch_id)
        batch.state, batch.undone_by = ImportBatch.State.UNDOING, by
        batch.finished_at = batch.finished_at or timezone.now()  # unset if the import was killed
        batch.save(update_fields=["state", "undone_by", "finished_at"])
        result = _compare(tables, table, batch)
        done = UndoResult(**batch.undo) if batch.undo else UndoResult(left=_lost(batch, result))
        for where, _ in tables.parts(table, fetch_one("SELECT count(*) FROM merged")[0]):
            with transaction.atomic():
                _write(tables, table, batch, where, done)
                batch.undo = asdict(done)
                batch.save(update_fields=["undo"])
            yield_to_writers()
        tables.optimize(table.name)
        done.left += batch.changes.count()
        _undo_data_sets(batch.data_sets)
        batch.state, batch.undone_at, batch.can_undo = ImportBatch.State.UNDONE, timezone.now(), False
        batch.undo = asdict(done)
        batch.save()
    return done


def store(table: TargetTable, batch: ImportBatch, rows: str, *, is_removed: bool) -> None:
    """Store rows that an import is about to change or remove (phonebook.imports.CHANGE_STORES)."""
    previous = ", ".join(f"t.{column}" for column in restored(table))
    run(
        f"INSERT INTO {_CHANGES} (batch_id, row_id, is_removed, {', '.join(restored(table))}) "
        f"SELECT {batch.pk}, t.id, {is_removed}, {previous} FROM {rows}"
    )


def restored(table: TargetTable) -> tuple[str, ...]:
    """The columns that an undo restores: all but the primary key."""
    return (*table.key, *table.values, *([table.stamp] if table.stamp else []), "import_batch")


def prune() -> int:
    """Delete what the undo of imports needs that has expired. Returns how many changes were deleted."""
    expire()
    old = ImportBatch.objects.filter(created_at__lt=timezone.now() - timedelta(days=UNDO_DAYS), can_undo=False)
    deleted = 0
    for batch in old.filter(Exists(ImportChange.objects.filter(batch=OuterRef("pk")))):
        # SQLite cannot take thousands of keys of two columns.
        deleted += retention.delete_in_batches(batch.changes.all(), retention.PRUNE_ROWS, key="row_id")
    return deleted


def _about(numbers: Sequence[str]) -> QuerySet[ImportChange]:
    return ImportChange.objects.filter(number__in=map(int, numbers))


def count_changes(numbers: Sequence[str]) -> int:
    return _about(numbers).count()


def erase(numbers: Sequence[str]) -> int:
    """Delete what is kept about these numbers. Call it in the locks of the tables. Returns how many rows."""
    return _about(numbers).delete()[0]


def expire() -> None:
    """End the time in which imports can be undone, after UNDO_DAYS, also of undos that were interrupted. Waits for
    imports and undos that are running."""
    old = ImportBatch.objects.filter(created_at__lt=timezone.now() - timedelta(days=UNDO_DAYS), can_undo=True)
    error = f"Only some of its rows were undone: the undo was interrupted, and not continued for {UNDO_DAYS} days."
    for kind, table in TABLES.items():
        if old.filter(kind=kind).exists():
            with Tables.lock(table):
                undoing = old.filter(kind=kind, state=ImportBatch.State.UNDOING)
                undoing.update(state=ImportBatch.State.FAILED, error=error)
                old.filter(kind=kind).update(can_undo=False)


def left(batch: ImportBatch) -> list[tuple[int, str]]:
    """Of the rows that the import changed or removed, the first that its undo left: the number, and why."""
    return _reasons(TABLES[batch.kind], batch.changes.all())


def would_leave(*, batch_id: int) -> list[tuple[int, str]]:
    """As `left`, before the undo. Raises CannotUndo and ImportBatch.DoesNotExist."""
    batch = _undoable(batch_id)
    table = TABLES[batch.kind]
    with Tables() as tables:
        _compare(tables, table, batch)
        rows = fetch(
            f"SELECT m.change FROM merged m LEFT JOIN {table.name} t ON {table.same_key('t', 'm')} "
            f"WHERE m.change IS NOT NULL AND {_is_left(tables, table)} ORDER BY m.number, m.change LIMIT {MAX_LISTED}",
            [batch.pk],
        )
    return _reasons(table, batch.changes.filter(row_id__in=[change for (change,) in rows]))


def _is_left(tables: StagingTables, table: TargetTable) -> str:
    """The SQL condition of rows of `merged` (m) that an undo leaves, joined with `table` (t); its parameter is the
    import's id."""
    same = f"t.id IS NOT NULL AND NOT ({tables.differ(table, 't', 'm')})"
    other = (
        "(m.is_removed AND t.id IS NOT NULL OR NOT m.is_removed AND (t.import_batch IS NULL OR t.import_batch <> %s))"
    )
    return f"(NOT ({same}) AND {other})"


def _reasons(table: TargetTable, changes: QuerySet[ImportChange]) -> list[tuple[int, str]]:
    """The number of each, and why it is left; at most MAX_LISTED."""
    found = []
    for change in changes.order_by("number", "row_id")[:MAX_LISTED]:
        key = {column: getattr(change, column) for column in table.key}
        row = table.model._default_manager.filter(**key).values("import_batch").first()
        if row is None:
            why = "deleted since"
        elif row["import_batch"]:
            why = f"changed by import {row['import_batch']}"
        else:
            why = "changed in the console or by an address book"
        found.append((change.number, why))
    return found


def record(batch: ImportBatch, result: UndoResult, *, user: AbstractBaseUser | None = None) -> None:
    """Record the undo in the History. `user` None: whoever runs this command."""
    history.record(action=history.Action.CHANGE, target=batch, message=f"Undone: rows {result}.", user=user)


def _undo_data_sets(recorded: batches.Recorded) -> None:
    """Undo what an import recorded, after its rows were. Call it in the lock.

    If another import has recorded a data set since, the version is set so that the next import loads what may be
    missing now: an older one, or none.
    """
    for name, (before, after) in recorded.items():
        source = name.rpartition(" ")[2]
        now = data_sets.stored(name)
        if now is None:
            continue
        if now == after:
            values = before
        elif name == data_sets.list_name(source):
            values = {**now, "version": min(now["version"], before["version"] if before else "0", key=int)}
        elif name == data_sets.days_name(source):
            values = {**now, "version": ""}
        else:  # a file
            values = None
        rows = ComplaintDay.objects.filter(source=source)
        if name == data_sets.list_name(source) and values is None and rows.exists():
            values = {**now, "version": "0"}  # some were changed since; the source stays that of a list
        if name == data_sets.days_name(source) and values and not values["version"]:
            newest = rows.aggregate(newest=Max("day"))["newest"]
            values = {**values, "version": str(newest)} if newest else None
        if values is None:
            Dataset.objects.filter(name=name).delete()
        else:
            Dataset.objects.update_or_create(name=name, defaults=values)


def _undoable(batch_id: int) -> ImportBatch:
    """Raises CannotUndo and ImportBatch.DoesNotExist."""
    batch = ImportBatch.objects.get(pk=batch_id)
    if reason := problem(batch).reason:
        raise CannotUndo(reason)
    return batch


def _compare(tables: StagingTables, table: TargetTable, batch: ImportBatch) -> UndoResult:
    """Derive `merged`: the rows to restore or to put back, with their `change`, and the primary keys of those to
    delete. Returns what they do."""
    columns = ", ".join(restored(table))
    tables.derive(
        "changes",
        f"SELECT row_id AS change, is_removed, {columns} FROM {_CHANGES} WHERE batch_id = %s",
        [batch.pk],
        index=", ".join(table.key),
    )
    nulls = ", ".join("NULL" for _ in restored(table)[1:])
    added = f"""
        SELECT NULL, NULL, t.number, {nulls}, t.id FROM {table.name} t
        LEFT JOIN changes c ON {table.same_key("c", "t")}
        WHERE t.id > %s AND t.import_batch = %s AND c.change IS NULL
    """
    tables.derive(
        "merged",
        f"SELECT change, is_removed, {columns}, CAST(NULL AS bigint) AS deleted FROM changes UNION ALL {added} "
        "ORDER BY number",
        [batch.last_id, batch.pk],
    )
    [back, put_back, deleted, left] = fetch_one(
        f"SELECT count(CASE WHEN NOT m.is_removed AND t.import_batch = %s THEN 1 END), "
        "count(CASE WHEN m.is_removed AND t.id IS NULL THEN 1 END), count(m.deleted), "
        f"count(CASE WHEN {_is_left(tables, table)} THEN 1 END) "
        f"FROM merged m LEFT JOIN {table.name} t ON m.deleted IS NULL AND {table.same_key('t', 'm')}",
        [batch.pk, batch.pk],
    )
    result = UndoResult(back, put_back, deleted, left)
    result.left += batch.undo["left"] if batch.undo else _lost(batch, result)
    return result


def _lost(batch: ImportBatch, result: UndoResult) -> int:
    """Rows that the import added and that are not its own any more. Unknown of one that was interrupted."""
    return 0 if batch.counts.get("planned") else max(0, batch.counts.get("added", 0) - result.deleted)


def _write(tables: StagingTables, table: TargetTable, batch: ImportBatch, where: str, done: UndoResult) -> None:
    """Write one part of `merged`, unless rows were changed since it was derived. Adds to `done`."""
    part = f"(SELECT * FROM merged WHERE {where}) m"
    same_key = table.same_key(table.name, "m")
    columns = ", ".join(restored(table))
    assignments = ", ".join(f"{column} = m.{column}" for column in restored(table) if column not in table.key)
    own = f"{table.name}.import_batch = {batch.pk}"
    with connection.cursor() as cursor:
        cursor.execute(
            f"UPDATE {table.name} SET {assignments} FROM {part} WHERE NOT m.is_removed AND {same_key} AND {own}"
        )
        done.restored += cursor.rowcount
        cursor.execute(
            f"INSERT INTO {table.name} ({columns}) SELECT {columns} FROM {part} WHERE is_removed ON CONFLICT DO NOTHING"
        )
        done.put_back += cursor.rowcount
        cursor.execute(f"DELETE FROM {table.name} WHERE id IN (SELECT deleted FROM {part}) AND {own}")
        done.deleted += cursor.rowcount
    is_as_before = f"{same_key} AND NOT ({tables.differ(table, table.name, 'm')})"
    as_before = f"SELECT change FROM {part} JOIN {table.name} ON {is_as_before}"
    run(f"DELETE FROM {_CHANGES} WHERE batch_id = {batch.pk} AND row_id IN ({as_before})")
