"""Imports complaints: how files, days and stored complaints are combined."""

# ruff: noqa: S608 (statements are built from names in the code; values are bound)

from datetime import UTC, date, datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import ManyToOneRel

from core.db import fetch, fetch_one, scan
from core.retention import PRUNE_ROWS, delete_in_batches
from phonebook.imports import COMPLAINT_FORMATS, Format, batches, data_sets
from phonebook.imports.pipeline import LINE_BITS, Import, ReplacedDay, is_loss
from phonebook.imports.readers.base import WHOLE_COUNT, UnreadableFile
from phonebook.imports.staging import NOT_DELETED, Tables, TargetTable
from phonebook.models import MAX_COUNT, ComplaintDay, ComplaintSubject, ImportBatch

#: A file with a different subject in every row must not fill the table.
MAX_SUBJECTS = 1000
COMPLAINTS = TargetTable(ComplaintDay, key=("number", "source", "day"), values=("total", "robocalls", "subject_id"))


class ComplaintImport(Import):
    """Replaces, for each source, the days that the files contain, all files together.

    A block list has numbers instead of days: it replaces the numbers that it names, and with `full` its
    source's whole list. `source`: None: the format's. `today` is in UTC. Rows of days before `oldest_day` are skipped,
    except a block list's. `recorded_as`: name and version of the data set that the file is. Also raises UnreadableFile
    if files do not go together, or, unless `allow_loss`, if there are fewer than half of the `expected_rows`, or a day
    or list would lose more than half of its numbers: most often the file is only a part of it.
    """

    kind = ImportBatch.Kind.COMPLAINTS
    table = COMPLAINTS
    formats = COMPLAINT_FORMATS
    columns = {
        "position": "bigint", "number": "bigint", "source": "text", "day": "date", "total": "bigint",
        "robocalls": "bigint", "subject": "text", "ticket": "text",
    }  # fmt: skip
    identity = "number, source, day, ticket"
    can_repeat = "ticket <> ''"

    def __init__(
        self,
        *,
        today: date,
        source: str | None = None,
        full: bool = False,
        allow_loss: bool = False,
        oldest_day: date | None = None,
        expected_rows: int = 0,
        recorded_as: tuple[str, str] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self._recorded_as = recorded_as
        self._today, self._source, self._oldest_day = today, source, oldest_day
        self._full, self._allow_loss, self._expected_rows = full, allow_loss, expected_rows
        #: The source of the block list; empty for other files.
        self._list = ""

    def reader_options(self, format_: Format) -> dict[str, Any]:
        return {"source": self._source or format_.source, "today": self._today, "oldest_day": self._oldest_day}

    def derive_merged(self, valid: int) -> None:
        if is_loss(self._expected_rows - valid, self._expected_rows) and not self._allow_loss:
            raise UnreadableFile(
                f"{valid:,} valid rows are less than half of the previous file's {self._expected_rows:,}; to import it "
                "anyway, add --allow-loss"
            )
        lists = [name for name in self.result.formats if self.known[name].is_list]
        if lists:
            self._list = self._source or self.known[lists[0]].source
            self._require_list()
        elif self._full:
            raise UnreadableFile("--full is for block lists: other files replace the days that they contain")
        parts = fetch_one("SELECT 1 FROM staged WHERE ticket <> %s LIMIT 1", [WHOLE_COUNT])
        self.tables.derive("totals", _SUMS if parts else _WHOLE_COUNTS, index="number, source, day")
        self.tables.derive("replaced", _REPLACED_DAYS, [self._list])
        self._require_days()
        left = max(0, MAX_SUBJECTS - ComplaintSubject.objects.count())
        self.tables.derive("new_subjects", _NEW_SUBJECTS, [left])
        if not self.dry_run:
            ComplaintSubject.objects.bulk_create(
                (ComplaintSubject(text=text) for (text,) in fetch("SELECT text FROM new_subjects ORDER BY nth")),
                ignore_conflicts=True,
            )
        if self._list:
            self.tables.derive("merged", _MERGED_LIST, [self._list, self._full])
        else:
            self.tables.derive("merged", _MERGED_DAYS)
        self.result.days = [ReplacedDay(*row) for row in fetch(_DAY_RESULTS)]
        if not self._allow_loss:
            self._require_no_loss()

    def recorded_options(self) -> dict[str, Any]:
        own = {"source": self._source, "full": self._full, "allow_loss": self._allow_loss}
        return {**super().recorded_options(), **own}

    def record(self, valid: int) -> batches.Recorded:
        recorded = {}
        if self._recorded_as:
            name, version = self._recorded_as
            recorded = data_sets.record(name, version, rows=valid)
        if self._list:
            name, version = data_sets.list_name(self._list), str(self.result.version or 0)
            return recorded | data_sets.record(name, version, rows=valid)
        return recorded | data_sets.record_days(self.result.days)

    def _require_list(self) -> None:
        """Raises UnreadableFile if there are other files, if the source has days, if a newer list is loaded, or if a
        full list is incomplete."""
        source, version = self._list, self.result.version or 0
        if len(self.result.formats) > 1:
            raise UnreadableFile("import a block list by itself: one file per command, the older version first")
        loaded = data_sets.loaded_version(data_sets.list_name(source))
        if not loaded and ComplaintDay.objects.filter(source=source).exists():
            raise UnreadableFile(f"'{source}' has complaints by day; a block list needs its own source (--source)")
        if self._full and self.rejected_with_number:
            raise UnreadableFile(
                f"{self.rejected_with_number:,} entries name a number but are invalid, so the list is not complete"
            )
        if loaded and not self._full and version < int(loaded):
            raise UnreadableFile(
                f"the list is version {version}, but version {loaded} is loaded; to replace it with an older full "
                "list, add --full"
            )

    def _require_days(self) -> None:
        """Raises UnreadableFile if a source whose days are replaced has a block list."""
        for (source,) in fetch("SELECT DISTINCT source FROM replaced"):
            if data_sets.loaded_version(data_sets.list_name(source)):
                raise UnreadableFile(f"'{source}' is the source of a block list; days need another source (--source)")

    def _require_no_loss(self) -> None:
        losses = [(f"{day.source} {day.day}", day.removed, day.numbers) for day in self.result.days if day.is_loss]
        if self._list:
            [removed] = fetch_one("SELECT count(deleted) FROM merged")
            before = ComplaintDay.objects.filter(source=self._list).count()
            losses = [(self._list, removed, before)] if is_loss(removed, before) else []
        if losses:
            what, removed, before = losses[0]
            raise UnreadableFile(
                f"{what} would lose {removed:,} of its {before:,} numbers"
                + (f", and {len(losses) - 1} more days most of theirs" if len(losses) > 1 else "")
                + ". Import all files of a day with one command; to import anyway, add --allow-loss"
            )


_REPLACED_DAYS = f"""
SELECT source, day, CAST(sum(total) AS bigint) AS total, count(DISTINCT position >> {LINE_BITS}) AS files
FROM staged WHERE source <> %s GROUP BY source, day
"""
_WHOLE_COUNTS = "SELECT number, source, day, total, robocalls, subject FROM staged WHERE total > 0"
# The subject is that of most complaints of the number and day.
_SUMS = f"""
SELECT number, source, day,
    CAST(CASE WHEN sum(total) > {MAX_COUNT} THEN {MAX_COUNT} ELSE sum(total) END AS bigint) AS total,
    CAST(CASE WHEN sum(robocalls) > {MAX_COUNT} THEN {MAX_COUNT} ELSE sum(robocalls) END AS bigint) AS robocalls,
    max(CASE WHEN nth = 1 THEN subject END) AS subject
FROM (
    SELECT number, source, day, subject, sum(total) AS total, sum(robocalls) AS robocalls, row_number()
        OVER (PARTITION BY number, source, day ORDER BY subject = '', sum(total) DESC, subject) AS nth
    FROM staged GROUP BY number, source, day, subject
) by_subject
GROUP BY number, source, day HAVING sum(total) > 0
"""
# The subjects of most complaints that the table lacks, as many as it has room for.
_NEW_SUBJECTS = """
SELECT subject AS text, row_number() OVER (ORDER BY sum(total) DESC, subject) AS nth FROM totals WHERE subject <> ''
AND NOT EXISTS (SELECT 1 FROM phonebook_complaintsubject WHERE text = subject)
GROUP BY subject ORDER BY nth LIMIT %s
"""
# The totals, and the stored rows of the same days, or the same list, that are not among them. In a
# dry run a new subject has no id.
_MERGED = f"""
SELECT t.number, t.source, t.day, t.total, t.robocalls,
    COALESCE(s.id, CASE WHEN n.text IS NOT NULL THEN CAST(-1 AS smallint) END) AS subject_id, {NOT_DELETED}
FROM totals t LEFT JOIN phonebook_complaintsubject s ON s.text = t.subject
LEFT JOIN new_subjects n ON n.text = t.subject
UNION ALL
SELECT stored.number, NULL, NULL, NULL, NULL, NULL, stored.id
FROM phonebook_complaintday stored {{join}}
LEFT JOIN totals t ON t.number = stored.number AND t.source = stored.source AND t.day = stored.day
WHERE t.number IS NULL {{where}}
ORDER BY 1
"""
_MERGED_DAYS = _MERGED.format(join="JOIN replaced r ON r.day = stored.day AND r.source = stored.source", where="")
_MERGED_LIST = _MERGED.format(
    join="", where="AND stored.source = %s AND (%s OR stored.number IN (SELECT number FROM staged))"
)
_DAY_RESULTS = """
SELECT r.source, r.day, COALESCE(sum(stored.total), 0), r.total, count(stored.id), count(merged.deleted), r.files
FROM replaced r
LEFT JOIN phonebook_complaintday stored ON stored.day = r.day AND stored.source = r.source
LEFT JOIN merged ON merged.deleted = stored.id
GROUP BY r.source, r.day, r.total, r.files ORDER BY r.source, r.day
"""


def drop_unused_subjects(*, wait: bool = True) -> int:
    """Delete the subjects to which no row refers; some contain what people wrote. Returns how many. `wait`: for an
    import that is writing (Tables.lock)."""
    with Tables.lock(COMPLAINTS, wait=wait), scan():
        used = {
            pk
            for each in ComplaintSubject._meta.get_fields(include_hidden=True)
            if isinstance(each, ManyToOneRel)
            for pk in each.related_model._default_manager.values_list(each.field.attname, flat=True).distinct()
        }
        return ComplaintSubject.objects.exclude(pk__in=used - {None}).delete()[0]


def prune_complaints() -> int:
    """Delete the complaints of days that are COMPLAINT_KEPT_DAYS or more before today (UTC); returns how many rows."""
    last_day = datetime.now(UTC).date() - timedelta(days=settings.COMPLAINT_KEPT_DAYS)
    return delete_in_batches(ComplaintDay.objects.filter(day__lte=last_day), PRUNE_ROWS)
