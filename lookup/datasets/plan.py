"""The verb behind `load_numbering_plan`."""

from dataclasses import dataclass, field
from typing import Any

from django.db import models
from django.utils import timezone

from lookup.datasets import bulk, numbering_plan
from lookup.datasets.bulk import Progress, Table
from lookup.models import Country, Dataset, NumberPrefix

NUMBERING_PLAN = "numbering-plan"
PREFIXES = Table(NumberPrefix, key=("prefix",), values=("place",))
COUNTRIES = Table(Country, key=("code",), values=("name",))


@dataclass(frozen=True, slots=True)
class Change:
    """Of a prefix or a country: what was there and what is; empty for nothing."""

    key: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class PlanLoaded:
    """What loading the numbering plan did. `already_loaded`: that version was there, and nothing was compared.
    `before`: the version that was there, empty where there was none; only then `changes` lists what differs."""

    version: str
    already_loaded: bool
    before: str = ""
    prefixes: int = 0
    countries: int = 0
    added: int = 0
    changed: int = 0
    removed: int = 0
    changes: list[Change] = field(default_factory=list)


def load_numbering_plan(*, force: bool = False, dry_run: bool = False, progress: Progress = bulk.silent) -> PlanLoaded:
    """Bring the tables of prefixes and countries to the installed version of the plan, by difference.

    Does nothing when that version is recorded as loaded, unless `force`. Searches are answered all the while: rows are
    removed last. Broken off, it goes on where it was when called again.
    """
    version = numbering_plan.version()
    before = Dataset.objects.filter(name=NUMBERING_PLAN).values_list("version", flat=True).first() or ""
    if before == version and not force:
        return PlanLoaded(version, already_loaded=True, before=before)
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
        before=before,
        prefixes=len(plan.places),
        countries=len(plan.countries),
        added=sum(difference.added for difference in differences),
        changed=sum(len(difference.written) - difference.added for difference in differences),
        removed=sum(len(difference.removed) for difference in differences),
        changes=[change for difference in differences for change in difference.changes()] if before else [],
    )


@dataclass(frozen=True, slots=True)
class _Difference:
    table: Table
    present: dict[Any, str]
    written: list[tuple[Any, ...]]
    added: int
    removed: list[Any]

    def changes(self) -> list[Change]:
        written = [Change(str(key), self.present.get(key, ""), value) for key, value in self.written]
        return written + [Change(str(key), self.present[key], "") for key in self.removed]


def _difference(table: Table, wanted: dict[Any, str]) -> _Difference:
    """What has to be written to, and removed from, a table of one key and one value."""
    manager: models.Manager[Any] = table.model._default_manager
    present = dict(manager.values_list(*table.key, *table.values))
    return _Difference(
        table,
        present,
        written=[item for item in wanted.items() if present.get(item[0]) != item[1]],
        added=len(wanted.keys() - present.keys()),
        removed=list(present.keys() - wanted.keys()),
    )
