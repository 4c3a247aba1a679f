"""The table of data sets: the loaded versions, and the age of the complaint data that others publish."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from django.conf import settings
from django.utils import timezone

from phonebook.imports import COMPLAINT_FORMATS
from phonebook.imports.batches import Recorded
from phonebook.imports.pipeline import ReplacedDay
from phonebook.models import MAX_COUNT, Dataset


@dataclass(frozen=True, slots=True)
class ComplaintData:
    """The loaded complaints of one source. `newest`: the newest day that an import contained; of a block list, the day
    (UTC) of its last import."""

    source: str
    newest: date
    loaded_at: datetime
    age_days: int

    @property
    def is_stale(self) -> bool:
        return self.age_days > settings.COMPLAINT_STALE_DAYS


def published() -> list[str]:
    """The sources whose publishers add data every day or week."""
    return [each.source for each in COMPLAINT_FORMATS if each.is_published]


def list_name(source: str) -> str:
    """The Dataset name of a block list."""
    return f"list {source}"


def days_name(source: str) -> str:
    """The Dataset name of complaints by day."""
    return f"complaints {source}"


def loaded_version(name: str) -> str:
    """The recorded version of the data set; empty if none is loaded."""
    return Dataset.objects.filter(name=name).values_list("version", flat=True).first() or ""


def record(name: str, version: str, *, rows: int) -> Recorded:
    """Record that this version of the data set was loaded now."""
    before = stored(name)
    values = {"version": version, "rows": rows, "loaded_at": timezone.now()}
    Dataset.objects.update_or_create(name=name, defaults=values)
    return {name: [before, stored(name)]}


def record_days(days: Iterable[ReplacedDay]) -> Recorded:
    """Record that these days of `published` sources were imported now. Call it in the import's lock."""
    imported, recorded = list(days), Recorded()
    for source in published():
        if own := [day for day in imported if day.source == source]:
            name = days_name(source)
            version = max(loaded_version(name), str(max(day.day for day in own)))
            recorded |= record(name, version, rows=min(sum(day.after for day in own), MAX_COUNT))
    return recorded


def stored(name: str) -> dict[str, Any] | None:
    """The row as JSON can have it."""
    row = Dataset.objects.filter(name=name).values("version", "rows", "loaded_at").first()
    return row and {**row, "loaded_at": row["loaded_at"].isoformat()}


def loaded(now: datetime) -> list[ComplaintData]:
    """Those of `published` sources that are loaded, with their age at `now` (UTC) in days. One statement."""
    sources = published()
    names = [name(source) for source in sources for name in (days_name, list_name)]
    rows = {row.name: row for row in Dataset.objects.filter(name__in=names)}
    found = []
    for source in sources:
        if row := rows.get(list_name(source)):
            newest = row.loaded_at.date()
        elif row := rows.get(days_name(source)):
            newest = date.fromisoformat(row.version)
        else:
            continue
        found.append(ComplaintData(source, newest, row.loaded_at, max(0, (now.date() - newest).days)))
    return found
