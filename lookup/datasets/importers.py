"""What the importers of contacts and of complaints share: reading rows, telling of bad ones, and what came of it."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Any

from lookup import marks
from lookup.datasets import reading
from lookup.datasets.bulk import Counts, Workbench
from lookup.datasets.files import TextFile
from lookup.datasets.reading import ListVersion, Rejected, Unreadable

#: Fewer numbers may go without a question.
FEW = 20
BLOCKED = "forgotten, and kept out"
# A place in the files of one command: the file's index above, the line below.
LINE_BITS = 40

#: Hears of every row that cannot be used, and of the file's name.
OnReject = Callable[[str, Rejected], None]


class Watch:
    """Hears how an import gets on. This one tells nobody."""

    def reading(self, file: TextFile) -> None:
        """Its rows come next."""

    def read(self, rows: int) -> None:
        """So many rows of all files have been read."""

    def merging(self, rows: int) -> None:
        """All is read; so many rows will be compared and written."""

    def merged(self, rows: int) -> None:
        """So many of them are written: on SQLite for good, on PostgreSQL all at once in the end."""

    def finished(self) -> None:
        """All is written for good."""


NOBODY = Watch()


@dataclass(frozen=True, slots=True)
class Replaced:
    """The complaints of one source on one day: as they were counted before, and are now; about how many numbers there
    were before, and how many of these are gone; in how many of the command's files it is."""

    source: str
    day: date
    before: int
    after: int
    numbers: int
    gone: int
    files: int

    @property
    def loses(self) -> bool:
        """Most of many."""
        return self.numbers >= FEW and self.gone > self.numbers / 2


@dataclass(frozen=True, slots=True)
class Imported:
    """What became of the rows. `read`: good and bad ones. `repeated`: left out, for an earlier row has the same number
    (complaints: the same ticket, or number and day). `rejected`: left out, how often for which reason."""

    formats: list[str]
    read: int
    added: int
    changed: int
    unchanged: int
    removed: int
    repeated: int
    rejected: dict[str, int]
    days: list[Replaced] = field(default_factory=list)
    #: Of a block list: which one is loaded now.
    version: int | None = None


class Rows:
    """The rows of the files, as they come; the bad ones are counted and told."""

    def __init__(self, on_reject: OnReject) -> None:
        self.rejected: Counter[str] = Counter()
        self.names: list[str] = []
        self.version: int | None = None
        #: How many were rejected though their number can be read.
        self.half_read = 0
        self._on_reject = on_reject
        self._blocked = marks.blocked_hashes()

    def of(self, file: TextFile, items: Iterable[Any]) -> Iterator[tuple[Any, ...]]:
        """Those of one file, each with its place instead of its line."""
        base = len(self.names) << LINE_BITS
        self.names.append(file.name)
        for item in items:
            if isinstance(item, tuple):
                if self._blocked and marks.hash_of(item[1]) in self._blocked:
                    self._reject(file.name, reading.rejected(item[0], BLOCKED, item[1]))
                    continue
                yield (base + item[0], *item[1:]) if base else item
            elif isinstance(item, ListVersion):
                self.version = item.version
            else:
                self._reject(file.name, item)

    def drop_newly_blocked(self, bench: Workbench) -> int:
        """Take out what has been forgotten, and is to be kept out, since the rows were read; how many rows."""
        new = marks.blocked_hashes() - self._blocked
        if not new:
            return 0
        found = (number for (number,) in bench.stream("SELECT DISTINCT number FROM given"))
        dropped = 0
        for number in [number for number in found if marks.hash_of(number) in new]:
            for (place,) in bench.ask("SELECT place FROM given WHERE number = %s ORDER BY place", [number]):
                name, line = self._where(place)
                self._reject(name, reading.rejected(line, BLOCKED, number))
            dropped += bench.execute("DELETE FROM given WHERE number = %s", [number])
        return dropped

    def repeated(self, bench: Workbench, identity: str, where: str = "1 = 1") -> int:
        """Tell of the rows given that are left out because an earlier one has the same `identity` (columns)."""
        count = 0
        firsts = f"SELECT place, number, min(place) OVER (PARTITION BY {identity}) AS first FROM given WHERE {where}"  # noqa: S608
        found = f"SELECT place, number, first FROM ({firsts}) firsts WHERE place <> first ORDER BY place"  # noqa: S608
        for place, number, first in bench.stream(found):
            count += 1
            (name, line), (first_name, first_line) = self._where(place), self._where(first)
            earlier = f"line {first_line}" if name == first_name else f"{first_name}:{first_line}"
            self._on_reject(name, reading.rejected(line, reading.REPEATED, number, earlier))
        return count

    def became(
        self, counts: Counts, *, good: int, formats: list[str], repeated: int, days: Sequence[Replaced] = ()
    ) -> Imported:
        return Imported(
            formats=formats,
            read=good + self.rejected.total(),
            added=counts.added,
            changed=counts.changed,
            unchanged=counts.unchanged,
            removed=counts.removed,
            repeated=repeated,
            rejected=dict(self.rejected.most_common()),
            days=list(days),
            version=self.version,
        )

    def require_any(self, good: int) -> None:
        if self.rejected and not good:
            raise Unreadable(f"{', '.join(self.names)}: no row could be used")

    def _reject(self, name: str, rejected: Rejected) -> None:
        self.rejected[rejected.reason] += 1
        self.half_read += rejected.number is not None and rejected.reason not in (BLOCKED, reading.REPEATED)
        self._on_reject(name, rejected)

    def _where(self, place: int) -> tuple[str, int]:
        return self.names[place >> LINE_BITS], place & ((1 << LINE_BITS) - 1)
