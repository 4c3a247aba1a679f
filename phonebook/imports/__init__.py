"""Imports: read → stage → merge.

1. **Read**: `files.py` opens a file, `formats.py` recognizes its format, and a reader in `readers/` yields its rows.
2. **Stage**: `staging.py` copies the valid ones into a temporary table.
3. **Merge**: `staging.py` writes what differs into the target table. What PostgreSQL and SQLite do in their own ways
   is in two classes there.

`pipeline.py` runs these steps, for `contacts.py` and `complaints.py`; `refresh.py` downloads files for it
(`download.py`). `numbering_plan.py` loads the installed phonenumbers data.

To add a file format, write a reader in `readers/` (`readers/base.py` describes what it yields, and
`readers/csv_rows.py` has the base of CSV formats) and list it in `formats.py`.
"""

from core.hooks import Hook

#: Dotted paths of functions that store the rows which an import is about to change or remove: called in its
#: transaction, for each part of a merge, with the TargetTable, the ImportBatch, SQL in which `t` is these rows, and
#: `is_removed`. Not called for imports that change too many rows (ImportBatch.can_undo).
CHANGE_STORES = Hook[str]()
