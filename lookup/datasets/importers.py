"""The verbs behind the import commands: what is read, what is written, and what came of it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from typing import IO, Any

from django.db import models
from django.utils import timezone

from lookup.datasets import bulk, numbering_plan, plain_csv
from lookup.datasets.bulk import Progress, Table
from lookup.datasets.plain_csv import Rejected, Row, Unreadable
from lookup.models import ComplaintDay, Contact, Country, Dataset, NumberPrefix

NUMBERING_PLAN = "numbering-plan"
CONTACTS = Table(Contact, key=("number",), values=("name", "location"), stamp="updated_at")
COMPLAINTS = Table(ComplaintDay, key=("number", "source", "day"), values=("total", "robocalls"))
PREFIXES = Table(NumberPrefix, key=("prefix",), values=("place",))
COUNTRIES = Table(Country, key=("code",), values=("name",))

#: Hears of every line that cannot be used.
OnReject = Callable[[Rejected], None]


@dataclass(frozen=True, slots=True)
class Imported:
    """How many lines were read (good and bad), and what became of them."""

    read: int
    added: int
    changed: int
    unchanged: int
    rejected: int


@dataclass(frozen=True, slots=True)
class PlanLoaded:
    """What loading the numbering plan did. `already_loaded`: that version was there, and nothing was compared."""

    version: str
    already_loaded: bool
    prefixes: int = 0
    countries: int = 0
    added: int = 0
    changed: int = 0
    removed: int = 0


def import_contacts(
    *, file: IO[bytes], on_reject: OnReject, dry_run: bool = False, progress: Progress = bulk.silent
) -> Imported:
    """Add or replace contacts from `file` (CSV, seekable): one a number.

    Raises Unreadable, with nothing changed, when the file cannot be read or has lines but no good one.
    """
    return _import(CONTACTS, plain_csv.read_contacts(file), on_reject, dry_run, progress)


def import_complaints(
    *,
    file: IO[bytes],
    source: str,
    today: date,
    on_reject: OnReject,
    dry_run: bool = False,
    progress: Progress = bulk.silent,
) -> Imported:
    """Add or replace complaint counts from `file` (CSV, seekable): one a number, source and day.

    `source` stands where a line names none; `today` is UTC's. Raises Unreadable, with nothing changed, when the file
    cannot be read or has lines but no good one, and InvalidSource.
    """
    rows = plain_csv.read_complaints(file, source=source, today=today)
    return _import(COMPLAINTS, rows, on_reject, dry_run, progress)


def load_numbering_plan(*, force: bool = False, dry_run: bool = False, progress: Progress = bulk.silent) -> PlanLoaded:
    """Bring the tables of prefixes and countries to the installed version of the plan, by difference.

    Does nothing when that version is recorded as loaded, unless `force`. Searches are answered all the while: rows are
    removed last. Broken off, it goes on where it was when called again.
    """
    version = numbering_plan.version()
    if not force and Dataset.objects.filter(name=NUMBERING_PLAN, version=version).exists():
        return PlanLoaded(version, already_loaded=True)
    plan = numbering_plan.read()
    differences = [_difference(COUNTRIES, plan.countries), _difference(PREFIXES, plan.places)]
    if not dry_run:
        for difference in differences:
            bulk.upsert(table=difference.table, rows=difference.written, progress=progress)
        for difference in differences:
            bulk.delete(model=difference.table.model, keys=difference.removed)
        Dataset.objects.update_or_create(
            name=NUMBERING_PLAN,
            defaults={"version": version, "rows": len(plan.places), "loaded_at": timezone.now()},
        )
    return PlanLoaded(
        version,
        already_loaded=False,
        prefixes=len(plan.places),
        countries=len(plan.countries),
        added=sum(difference.added for difference in differences),
        changed=sum(len(difference.written) - difference.added for difference in differences),
        removed=sum(len(difference.removed) for difference in differences),
    )


@dataclass(frozen=True, slots=True)
class _Difference:
    table: Table
    written: list[tuple[Any, ...]]
    added: int
    removed: list[Any]


def _difference(table: Table, wanted: dict[Any, str]) -> _Difference:
    """What has to be written to, and removed from, a table of one key and one value."""
    manager: models.Manager[Any] = table.model._default_manager
    present = dict(manager.values_list(*table.key, *table.values))
    return _Difference(
        table,
        written=[item for item in wanted.items() if present.get(item[0]) != item[1]],
        added=len(wanted.keys() - present.keys()),
        removed=list(present.keys() - wanted.keys()),
    )


def _import(
    table: Table, lines: Iterator[Row | Rejected], on_reject: OnReject, dry_run: bool, progress: Progress
) -> Imported:
    rejected = 0

    def good_rows() -> Iterator[tuple[Any, ...]]:
        nonlocal rejected
        for line in lines:
            if isinstance(line, Row):
                yield line.values
            else:
                rejected += 1
                on_reject(line)

    counts = bulk.upsert(table=table, rows=good_rows(), dry_run=dry_run, progress=progress)
    good = counts.added + counts.changed + counts.unchanged
    if rejected and not good:
        raise Unreadable("no line could be used")
    return Imported(good + rejected, counts.added, counts.changed, counts.unchanged, rejected)
