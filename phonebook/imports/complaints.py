"""Imports complaints: how files, days and stored complaints are combined."""

# ruff: noqa: S608 (statements are built from names in the code; values are bound)

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from datetime import UTC, date, datetime, timedelta
from typing import Any

from django.conf import settings

from core.db import fetch, fetch_one
from core.retention import delete_in_batches
from phonebook.imports import data_sets, formats
from phonebook.imports.files import TextFile
from phonebook.imports.formats import Format
from phonebook.imports.progress import ImportProgress
from phonebook.imports.readers.base import WHOLE_COUNT, UnreadableFile
from phonebook.imports.reading import LINE_BITS, FileReader, ImportResult, OnReject, ReplacedDay, is_loss
from phonebook.imports.staging import NOT_DELETED, StagingTables, Tables, TargetTable
from phonebook.models import MAX_COUNT, ComplaintDay, ComplaintSubject, Dataset

#: A file with a different subject in every row must not fill the table.
MAX_SUBJECTS = 1000
PRUNE_ROWS = 1_000
COMPLAINTS = TargetTable(ComplaintDay, key=("number", "source", "day"), values=("total", "robocalls", "subject_id"))


def import_complaints(
    *,
    files: Iterable[AbstractContextManager[TextFile]],
    today: date,
    on_reject: OnReject,
    format_name: str | None = None,
    source: str | None = None,
    full: bool = False,
    allow_loss: bool = False,
    oldest_day: date | None = None,
    expected_rows: int = 0,
    dry_run: bool = False,
    observer: ImportProgress | None = None,
) -> ImportResult:
    """Replace, for each source, the days that the files contain, all files together.

    A block list (PhoneBlock) has numbers instead of days: it replaces the numbers that it names, and with `full` its
    source's whole list. `format_name`: a key of formats.COMPLAINTS; None: recognized for each file. `source`: None: the
    format's. `today` is in UTC. Rows of days before `oldest_day` are skipped, except a block list's. Raises
    UnreadableFile, with nothing changed, if a file cannot be read, all rows are rejected, files do not go together, or,
    unless `allow_loss`, there are fewer than half of the `expected_rows`, or a day or list would lose more than half of
    its numbers: most often the file is only a part of it.
    """
    observer = observer or ImportProgress()
    reader, subjects = FileReader(on_reject, observer), _Subjects()

    def options(format_: Format) -> dict[str, Any]:
        return {"source": source or format_.source, "today": today, "oldest_day": oldest_day}

    with Tables() as tables:
        rows = reader.rows(files, formats.COMPLAINTS, format_name, options)
        staged = tables.fill("staged", _COLUMNS, subjects.numbered(rows), observer.read)
        with tables.lock(COMPLAINTS):
            valid = reader.finish(tables, staged)
            if is_loss(expected_rows - valid, expected_rows) and not allow_loss:
                raise UnreadableFile(
                    f"{valid:,} valid rows are less than half of the previous file's {expected_rows:,}; to import it "
                    "anyway, add --allow-loss"
                )
            list_source = _list_source(source, reader.result.formats)
            if list_source:
                _require_list(list_source, reader, full)
            elif full:
                raise UnreadableFile("--full is for block lists: other files replace the days that they contain")
            identity = _identity(reader.result.formats)
            if _add_up(tables, identity, valid) < valid:
                reader.report_repeated(tables, identity, "ticket <> ''")
            tables.derive("replaced", _REPLACED_DAYS, [list_source])
            _require_days()
            tables.fill("subjects", {"number": "smallint", "id": "smallint"}, subjects.ids(create=not dry_run))
            if list_source:
                tables.derive("merged", _MERGED_LIST, [list_source, full])
            else:
                tables.derive("merged", _MERGED_DAYS)
            reader.result.days = [ReplacedDay(*row) for row in fetch(_DAY_RESULTS)]
            if not allow_loss and not dry_run:
                _require_no_loss(reader.result.days, list_source)
            tables.merge(COMPLAINTS, reader.result, observer, dry_run=dry_run)
            if list_source and not dry_run:
                data_sets.record(data_sets.list_name(list_source), str(reader.result.version or 0), rows=valid)
            elif not dry_run:
                data_sets.record_days(reader.result.days)
        if not dry_run:
            observer.finished()
    return reader.result


def _list_source(source: str | None, names: list[str]) -> str:
    """The source of a block list with these names of formats; empty if there is none. Raises UnreadableFile."""
    lists = [name for name in names if formats.COMPLAINTS[name].is_list]
    if lists and len(names) > 1:
        raise UnreadableFile("import a block list by itself: one file per command, the older version first")
    return source or formats.COMPLAINTS[lists[0]].source if lists else ""


def _identity(names: list[str]) -> str:
    """The columns, or expressions, by which a row of files with these formats repeats another."""
    identities = {formats.COMPLAINTS[name].identity for name in names}
    return identities.pop() if len(identities) == 1 else _ANY_IDENTITY


def _add_up(tables: StagingTables, identity: str, valid: int) -> int:
    """Create `counted`, the staged rows that count, and `totals` by number, source and day. Returns how many count."""
    whole_counts = identity == formats.NUMBER_AND_DAY
    if identity:
        index = identity if whole_counts else ""
        valid = tables.derive("counted", _FIRST_OF_EACH.format(identity=identity), index=index)
    else:
        tables.view("counted", _ALL)
    if whole_counts:
        tables.view("totals", _WHOLE_COUNTS)
    else:
        tables.derive("totals", _SUMS, index=formats.NUMBER_AND_DAY)
    return valid


_COLUMNS = {
    "position": "bigint", "number": "bigint", "source": "text", "day": "date", "total": "bigint",
    "robocalls": "bigint", "subject": "smallint", "ticket": "text",
}  # fmt: skip
# For files of several formats.
_ANY_IDENTITY = formats.TICKET + "".join(
    f", CASE WHEN ticket = '{WHOLE_COUNT}' THEN {column} END" for column in ("number", "day")
)
_ALL = "SELECT position, number, source, day, total, robocalls, subject FROM staged"
# A ticket, or a number's count of a day, counts where it occurs first; all rows without a ticket count.
_FIRST_OF_EACH = """
SELECT position, number, source, day, total, robocalls, subject
FROM (SELECT *, row_number() OVER (PARTITION BY {identity} ORDER BY position) AS nth FROM staged) numbered
WHERE nth = 1 OR ticket = ''
"""
_REPLACED_DAYS = f"""
SELECT source, day, CAST(sum(total) AS bigint) AS total, count(DISTINCT position >> {LINE_BITS}) AS files
FROM counted WHERE source <> %s GROUP BY source, day
"""
# Each row is a number's whole count of its day.
_WHOLE_COUNTS = "SELECT number, source, day, total, robocalls, subject FROM counted WHERE total > 0"
# Each row is a part of the count. The subject is that of most complaints of the number and day: the maximum of sum and
# subject combined into one integer.
_SUMS = f"""
SELECT number, source, day,
    CAST(CASE WHEN sum(total) > {MAX_COUNT} THEN {MAX_COUNT} ELSE sum(total) END AS bigint) AS total,
    CAST(CASE WHEN sum(robocalls) > {MAX_COUNT} THEN {MAX_COUNT} ELSE sum(robocalls) END AS bigint) AS robocalls,
    CAST(max(weight) %% 65536 AS bigint) AS subject
FROM (
    SELECT number, source, day, sum(total) AS total, sum(robocalls) AS robocalls,
        CASE WHEN subject = 0 THEN 0 ELSE sum(total) * 65536 + subject END AS weight
    FROM counted GROUP BY number, source, day, subject
) by_subject
GROUP BY number, source, day HAVING sum(total) > 0
"""
# The totals, and the stored rows of the same days, or the same list, that are not among them.
_MERGED = f"""
SELECT t.number, t.source, t.day, t.total, t.robocalls, s.id AS subject_id, {NOT_DELETED}
FROM totals t LEFT JOIN subjects s ON s.number = t.subject
UNION ALL
SELECT stored.number, NULL, NULL, NULL, NULL, NULL, stored.id
FROM phonebook_complaintday stored {{join}}
LEFT JOIN totals t ON t.number = stored.number AND t.source = stored.source AND t.day = stored.day
WHERE t.number IS NULL {{where}}
ORDER BY 1
"""
_MERGED_DAYS = _MERGED.format(join="JOIN replaced r ON r.day = stored.day AND r.source = stored.source", where="")
_MERGED_LIST = _MERGED.format(
    join="", where="AND stored.source = %s AND (%s OR stored.number IN (SELECT number FROM counted))"
)
_DAY_RESULTS = """
SELECT r.source, r.day, COALESCE(sum(stored.total), 0), r.total, count(stored.id), count(merged.deleted), r.files
FROM replaced r
LEFT JOIN phonebook_complaintday stored ON stored.day = r.day AND stored.source = r.source
LEFT JOIN merged ON merged.deleted = stored.id
GROUP BY r.source, r.day, r.total, r.files ORDER BY r.source, r.day
"""


class _Subjects:
    """Numbers for subjects while the rows are staged, when the table cannot be queried yet."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {"": 0}

    def numbered(self, rows: Iterable[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
        """The rows with a number instead of the subject: 0 for none, or beyond MAX_SUBJECTS."""
        numbers = self._numbers
        for *row, subject, ticket in rows:
            if subject not in numbers and len(numbers) <= MAX_SUBJECTS:
                numbers[subject] = len(numbers)
            yield *row, numbers.get(subject, 0), ticket

    def ids(self, *, create: bool) -> list[tuple[int, int]]:
        """The numbers in `totals` and the table's ids. Without `create`, new subjects get ids that the table does not
        have."""
        used = {number for (number,) in fetch("SELECT DISTINCT subject FROM totals")}
        numbers = {text: number for text, number in self._numbers.items() if number in used and text}
        known = dict(ComplaintSubject.objects.values_list("text", "id"))
        new = [text for text in numbers if text not in known][: max(0, MAX_SUBJECTS - len(known))]
        if create and new:
            ComplaintSubject.objects.bulk_create((ComplaintSubject(text=text) for text in new), ignore_conflicts=True)
            known = dict(ComplaintSubject.objects.values_list("text", "id"))
        elif new:
            known |= {text: -numbers[text] for text in new}
        return [(number, known[text]) for text, number in numbers.items() if text in known]


def _require_no_loss(days: list[ReplacedDay], list_source: str) -> None:
    losses = [(f"{day.source} {day.day}", day.removed, day.numbers) for day in days if day.is_loss]
    if list_source:
        [removed] = fetch_one("SELECT count(deleted) FROM merged")
        before = ComplaintDay.objects.filter(source=list_source).count()
        losses = [(list_source, removed, before)] if is_loss(removed, before) else []
    if losses:
        what, removed, before = losses[0]
        raise UnreadableFile(
            f"{what} would lose {removed:,} of its {before:,} numbers"
            + (f", and {len(losses) - 1} more days most of theirs" if len(losses) > 1 else "")
            + ". Import all files of a day with one command; to import anyway, add --allow-loss"
        )


def _require_list(source: str, reader: FileReader, full: bool) -> None:
    """Raises UnreadableFile if the source has days, if a newer list is loaded, or if a full list is incomplete."""
    loaded = Dataset.objects.filter(name=data_sets.list_name(source)).first()
    if loaded is None and ComplaintDay.objects.filter(source=source).exists():
        raise UnreadableFile(f"'{source}' has complaints by day; a block list needs its own source (--source)")
    if full and reader.rejected_with_number:
        raise UnreadableFile(
            f"{reader.rejected_with_number:,} entries name a number but are invalid, so the list is not complete"
        )
    version = reader.result.version or 0
    if loaded and not full and version < int(loaded.version):
        raise UnreadableFile(
            f"the list is version {version}, but version {loaded.version} is loaded; to replace it with an older full "
            "list, add --full"
        )


def _require_days() -> None:
    """Raises UnreadableFile if a source whose days are replaced has a block list."""
    sources = [source for (source,) in fetch("SELECT DISTINCT source FROM replaced")]
    if lists := Dataset.objects.filter(name__in=map(data_sets.list_name, sources)).values_list("name", flat=True):
        source = lists[0].partition(" ")[2]
        raise UnreadableFile(f"'{source}' is the source of a block list; days need another source (--source)")


def drop_unused_subjects() -> int:
    """Delete the subjects without complaints, some of which contain what people wrote. Returns how many."""
    with Tables.lock(COMPLAINTS):
        used = set(ComplaintDay.objects.exclude(subject=None).values_list("subject_id", flat=True).distinct())
        return ComplaintSubject.objects.exclude(pk__in=used).delete()[0]


def prune_complaints() -> int:
    """Delete the complaints of days that are COMPLAINT_KEPT_DAYS or more before today (UTC); returns how many rows."""
    last_day = datetime.now(UTC).date() - timedelta(days=settings.COMPLAINT_KEPT_DAYS)
    return delete_in_batches(ComplaintDay.objects.filter(day__lte=last_day), PRUNE_ROWS)
