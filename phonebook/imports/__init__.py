"""Imports: read → stage → merge.

1. **Read**: `files.py` opens a file, `formats.py` recognizes its format, and a reader in `readers/` yields its rows.
2. **Stage**: `staging.py` copies the valid ones into a temporary table.
3. **Merge**: `staging.py` writes what differs into the target table. What PostgreSQL and SQLite do in their own ways
   is in two classes there.

`pipeline.py` runs these steps, for `contacts.py` and `complaints.py`; `refresh.py` downloads files for it
(`download.py`), and `uploads.py` receives them from the console. `numbering_plan.py` loads the installed phonenumbers
data.

To add a file format, write a reader in `readers/` (`readers/base.py` describes what it yields, and
`readers/csv_rows.py` has the base of CSV formats) and list it in `formats.py`.
"""

#: Of uploads that are not imported: kind → the dotted path of a context manager that takes the file over, called with
#: the ImportUpload and the options of open_text; at the end of its block it deletes the upload. Filled by add-ons.
CHECKS: dict[str, str] = {}
