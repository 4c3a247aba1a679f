"""Imports: read → stage → merge.

1. **Read**: `files.py` opens a file, `formats.py` recognizes its format, and a reader yields its rows.
2. **Stage**: `staging.py` copies the valid ones into a temporary table.
3. **Merge**: `staging.py` writes what differs into the target table. What PostgreSQL and SQLite do in their own ways
   is in two classes there.

`pipeline.py` runs these steps, for `contacts.py` and `complaints.py`. `numbering_plan.py` loads the installed
phonenumbers data.

docs/maintaining.md says how to add a file format.
"""

from dataclasses import dataclass
from pkgutil import resolve_name
from typing import Any

from core.hooks import Hook


@dataclass(frozen=True, slots=True)
class Format:
    """`name`: of `--format`. `title`: for people. `path`: the reader's, a module or class."""

    name: str
    title: str
    path: str
    #: Complaints: the source, unless the operator names another.
    source: str = ""
    #: Complaints: a block list, which is about numbers instead of days.
    is_list: bool = False
    #: Complaints: the publisher of the source adds data every day or week.
    is_published: bool = False

    @property
    def reader(self) -> Any:
        """It has `recognizes`, which returns by which of a file's first lines (TextFile.begin) it has this format, from
        1, and 0 if it has not; and `read`, which yields the rows of the lines."""
        return resolve_name(self.path)


#: What files of contacts and of complaints can be.
CONTACT_FORMATS, COMPLAINT_FORMATS = Hook[Format](), Hook[Format]()
_PLAIN = f"{__name__}.readers.plain_csv"
# After the others, of which a file may have all columns too.
CONTACT_FORMATS.add(Format("csv", "CSV with number, name, location", f"{_PLAIN}.PlainContactReader"), order=1)
COMPLAINT_FORMATS.add(Format("csv", "CSV with number, day, total", f"{_PLAIN}.PlainComplaintReader", "import"), order=1)

#: Dotted paths of functions that store the rows which an import is about to change or remove: called in its
#: transaction, for each part of a merge, with the TargetTable, the ImportBatch, SQL in which `t` is these rows, and
#: `is_removed`. Not called for imports that change too many rows (ImportBatch.can_undo).
CHANGE_STORES = Hook[str]()
