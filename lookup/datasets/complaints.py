"""The verb behind `import_complaints`: how files, days and what is there meet."""

# ruff: noqa: S608 (statements are put together from names in the code; values are bound)

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from datetime import date
from typing import Any

from django.utils import timezone

from lookup.datasets import bulk, formats
from lookup.datasets.bulk import NOT_GONE, Table, Workbench
from lookup.datasets.files import TextFile
from lookup.datasets.importers import FEW, LINE_BITS, NOBODY, Imported, OnReject, Replaced, Rows, Watch
from lookup.datasets.reading import WHOLE_COUNT, Unreadable, naming
from lookup.models import MAX_COUNT, ComplaintDay, ComplaintSubject, Dataset

#: More are not kept: a file whose every row has one of its own must not fill the table.
MAX_SUBJECTS = 1000
COMPLAINTS = Table(ComplaintDay, key=("number", "source", "day"), values=("total", "robocalls", "subject_id"))


def import_complaints(
    *,
    files: Iterable[AbstractContextManager[TextFile]],
    today: date,
    on_reject: OnReject,
    format_name: str | None = None,
    source: str | None = None,
    full: bool = False,
    allow_loss: bool = False,
    dry_run: bool = False,
    watch: Watch = NOBODY,
) -> Imported:
    """Replace, for each source, the days that the files hold, all files together, by what they say.

    A block list (PhoneBlock) has numbers instead of days: it replaces those that it names, and with `full` all that its
    source has said before. `format_name`: of formats.COMPLAINTS; None: recognised, file by file. `source`: None: the
    format's. `today` is UTC's. Raises Unreadable, with nothing changed, when a file cannot be read, when there are rows
    but no good one, when files do not go together, or, unless `allow_loss`, when a day or a list would lose more than
    half of what it has: most often a file that holds only a part of it.
    """
    rows, subjects, given = Rows(on_reject), _Subjects(), _Given(format_name, source, today, watch)
    with bulk.workbench() as bench:
        good = bench.fill("given", _COMPLAINT_COLUMNS, subjects.numbered(given.rows(files, rows)), watch.read)
        rows.require_any(good)
        with bulk.one_at_a_time(COMPLAINTS):
            good -= rows.drop_newly_blocked(bench)
            if given.list_source:
                _require_a_list(given.list_source, rows, full)
            elif full:
                raise Unreadable("--full is for block lists: other files replace the days that they hold")
            kept = _add_up(bench, given.identity, good)
            repeated = rows.repeated(bench, given.identity, "ticket <> ''") if kept < good else 0
            bench.derive("held", _HELD, [given.list_source])
            _require_no_list(bench)
            bench.fill("subjects", {"given": "smallint", "id": "smallint"}, subjects.ids(create=not dry_run))
            if given.list_source:
                ready = bench.derive("ready", _READY_LIST, [given.list_source, full])
            else:
                ready = bench.derive("ready", _READY_DAYS)
            days = [Replaced(*row) for row in bench.ask(_DAYS)]
            if not allow_loss and not dry_run:
                _require_no_loss(bench, days, given.list_source)
            watch.merging(ready)
            counts = bulk.merge(bench=bench, table=COMPLAINTS, ready="ready", dry_run=dry_run, progress=watch.merged)
            if given.list_source and not dry_run:
                _note_list(given.list_source, rows.version or 0, good)
        if not dry_run:
            watch.finished()
    return rows.became(counts, good=good, formats=given.formats, repeated=repeated, days=days)


def _add_up(bench: Workbench, identity: str, good: int) -> int:
    """From the rows `given`: `kept`, those that count, and their `totals` by number, source and day. Returns how many
    count."""
    if not identity:
        bench.view("kept", _ALL)
    else:
        good = bench.derive("kept", _FIRST.format(identity=identity))
    if identity == formats.NUMBERS_DAY:
        bench.index("kept", identity)
        bench.view("totals", _COUNTED)
    else:
        bench.derive("totals", _TOTALS)
        bench.index("totals", formats.NUMBERS_DAY)
    return good


_COMPLAINT_COLUMNS = {
    "place": "bigint", "number": "bigint", "source": "text", "day": "date", "total": "bigint", "robocalls": "bigint",
    "subject": "smallint", "ticket": "text",
}  # fmt: skip
_OF_ANY_FORMAT = formats.TICKET + "".join(
    f", CASE WHEN ticket = '{WHOLE_COUNT}' THEN {column} END" for column in ("number", "day")
)
_ALL = "SELECT place, number, source, day, total, robocalls, subject FROM given"
# A ticket, or a number's count of a day, is taken where it comes first; rows without a ticket all count.
_FIRST = """
SELECT place, number, source, day, total, robocalls, subject
FROM (SELECT *, row_number() OVER (PARTITION BY {identity} ORDER BY place) AS nth FROM given) numbered
WHERE nth = 1 OR ticket = ''
"""
_HELD = f"""
SELECT source, day, CAST(sum(total) AS bigint) AS total, count(DISTINCT place >> {LINE_BITS}) AS files
FROM kept WHERE source <> %s GROUP BY source, day
"""
# Each row is a number's whole count of its day.
_COUNTED = "SELECT number, source, day, total, robocalls, subject FROM kept WHERE total > 0"
# Each row is a part of the count. A number's day has the subject of most of its complaints: the greatest of sums and
# subjects, put into one number.
_TOTALS = f"""
SELECT number, source, day,
    CAST(CASE WHEN sum(total) > {MAX_COUNT} THEN {MAX_COUNT} ELSE sum(total) END AS bigint) AS total,
    CAST(CASE WHEN sum(robocalls) > {MAX_COUNT} THEN {MAX_COUNT} ELSE sum(robocalls) END AS bigint) AS robocalls,
    CAST(max(weight) %% 65536 AS bigint) AS subject
FROM (
    SELECT number, source, day, sum(total) AS total, sum(robocalls) AS robocalls,
        CASE WHEN subject = 0 THEN 0 ELSE sum(total) * 65536 + subject END AS weight
    FROM kept GROUP BY number, source, day, subject
) by_subject
GROUP BY number, source, day HAVING sum(total) > 0
"""
# What the totals say, and what was there for the same days, or in the same list, and is in them no more.
_READY = f"""
SELECT number, source, day, total, robocalls, s.id AS subject_id, {NOT_GONE}
FROM totals LEFT JOIN subjects s ON s.given = totals.subject
UNION ALL
SELECT there.number, NULL, NULL, NULL, NULL, NULL, there.id
FROM lookup_complaintday there {{among}}
LEFT JOIN totals t ON t.number = there.number AND t.source = there.source AND t.day = there.day
WHERE t.number IS NULL {{only}}
ORDER BY 1
"""
_READY_DAYS = _READY.format(among="JOIN held ON held.day = there.day AND held.source = there.source", only="")
_READY_LIST = _READY.format(
    among="", only="AND there.source = %s AND (%s OR there.number IN (SELECT number FROM kept))"
)
_DAYS = """
SELECT held.source, held.day, COALESCE(sum(there.total), 0), held.total, count(there.id), count(ready.gone), held.files
FROM held
LEFT JOIN lookup_complaintday there ON there.day = held.day AND there.source = held.source
LEFT JOIN ready ON ready.gone = there.id
GROUP BY held.source, held.day, held.total, held.files ORDER BY held.source, held.day
"""


class _Given:
    """The files of one command, one after the other, and what they are."""

    def __init__(self, format_name: str | None, source: str | None, today: date, watch: Watch) -> None:
        self.formats: list[str] = []
        #: Of a block list; empty where there is none.
        self.list_source = ""
        self._format_name = format_name
        self._source = source
        self._today = today
        self._watch = watch

    @property
    def identity(self) -> str:
        """By which columns, or expressions, two rows are one."""
        identities = {formats.COMPLAINTS[name].identity for name in self.formats}
        return identities.pop() if len(identities) == 1 else _OF_ANY_FORMAT

    def rows(self, files: Iterable[AbstractContextManager[TextFile]], rows: Rows) -> Iterator[tuple[Any, ...]]:
        names: dict[bytes, str] = {}
        for opened in files:
            with opened as file, naming(file.name):
                self._watch.reading(file)
                any_row = False
                for row in rows.of(file, self._read(file)):
                    any_row = True
                    yield row
                if not any_row:
                    continue
                if first := names.get(file.digest):
                    raise Unreadable(f"the file holds the same as {first}")
                names[file.digest] = file.name

    def _read(self, file: TextFile) -> Iterator[Any]:
        name = self._format_name or formats.recognise(formats.COMPLAINTS, file.first_line)
        format_ = formats.COMPLAINTS[name]
        source = self._source or format_.source
        if self.formats and (format_.is_list or self.list_source):
            raise Unreadable("a block list is imported by itself: one file, the older version first")
        if format_.is_list:
            self.list_source = source
        self.formats.append(name)
        return format_.read(file.lines, source=source, today=self._today)


class _Subjects:
    """Subjects by numbers of their own while the rows are read, for then the table cannot be asked."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {"": 0}

    def numbered(self, rows: Iterable[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
        """The same rows, with a number instead of the subject: 0 where there is none, or no room."""
        numbers_ = self._numbers
        for place, number, source, day, total, robocalls, subject, ticket in rows:
            if subject not in numbers_ and len(numbers_) <= MAX_SUBJECTS:
                numbers_[subject] = len(numbers_)
            yield place, number, source, day, total, robocalls, numbers_.get(subject, 0), ticket

    def ids(self, *, create: bool) -> list[tuple[int, int]]:
        """These numbers and the table's ids; a subject that the table does not have and is not to `create` has none of
        its ids."""
        known = dict(ComplaintSubject.objects.values_list("text", "id"))
        new = [text for text in self._numbers if text and text not in known][: max(0, MAX_SUBJECTS - len(known))]
        if create and new:
            ComplaintSubject.objects.bulk_create((ComplaintSubject(text=text) for text in new), ignore_conflicts=True)
            known = dict(ComplaintSubject.objects.values_list("text", "id"))
        elif new:
            known |= {text: -self._numbers[text] for text in new}
        return [(number, known[text]) for text, number in self._numbers.items() if text in known]


def _require_no_loss(bench: Workbench, days: list[Replaced], list_source: str) -> None:
    losing = [(f"{day.source} {day.day}", day.gone, day.numbers) for day in days if day.loses]
    if list_source:
        gone = bench.ask("SELECT count(gone) FROM ready")[0][0]
        there = ComplaintDay.objects.filter(source=list_source).count() if gone else 0
        if there >= FEW and gone > there / 2:
            losing = [(list_source, gone, there)]
    if losing:
        what, gone, there = losing[0]
        raise Unreadable(
            f"{what} would lose {gone:,} of its {there:,} numbers"
            + (f", and {len(losing) - 1} more days most of theirs" if len(losing) > 1 else "")
            + ". A day that is spread over several files is imported from all of them by one command; if it is meant, "
            "--allow-loss"
        )


def _list_name(source: str) -> str:
    return f"list {source}"


def _require_a_list(source: str, rows: Rows, full: bool) -> None:
    """That nothing but lists was loaded of this source, and no newer one; that a full one can be read as a whole."""
    loaded = Dataset.objects.filter(name=_list_name(source)).first()
    if loaded is None and ComplaintDay.objects.filter(source=source).exists():
        raise Unreadable(f"'{source}' has complaints by day; a block list needs a source of its own (--source)")
    if full and rows.half_read:
        raise Unreadable(
            f"{rows.half_read:,} entries name a number and cannot be read: whether it is still in the list is unknown"
        )
    version = rows.version or 0
    if loaded and not full and version < int(loaded.version):
        raise Unreadable(
            f"the list is version {version}, and version {loaded.version} is loaded; a full list that is meant to "
            "replace it needs --full"
        )


def _require_no_list(bench: Workbench) -> None:
    """That no block list has one of the sources whose days are replaced."""
    held = [source for (source,) in bench.ask("SELECT DISTINCT source FROM held")]
    if lists := Dataset.objects.filter(name__in=map(_list_name, held)).values_list("name", flat=True):
        source = lists[0].partition(" ")[2]
        raise Unreadable(f"'{source}' is a block list's; days need a source of their own (--source)")


def _note_list(source: str, version: int, rows: int) -> None:
    Dataset.objects.update_or_create(
        name=_list_name(source), defaults={"version": str(version), "rows": rows, "loaded_at": timezone.now()}
    )


def drop_unused_subjects() -> int:
    """Delete the subjects that no complaint has any more: they make room, and some hold what people wrote. How many."""
    with bulk.one_at_a_time(COMPLAINTS):
        used = set(ComplaintDay.objects.exclude(subject=None).values_list("subject_id", flat=True).distinct())
        return ComplaintSubject.objects.exclude(pk__in=used).delete()[0]
