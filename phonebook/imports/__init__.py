"""Imports: read → stage → merge.

1. **Read**: `files.py` opens a file, `formats.py` recognizes its format, a reader in `readers/` yields its rows, and
   `reading.py` rejects some of them.
2. **Stage**: `staging.py` copies the others into temporary tables.
3. **Merge**: `staging.py` writes what differs into the target table. What PostgreSQL and SQLite do in their own ways
   is in two classes there.

`contacts.py` and `complaints.py` run these steps, and `refresh.py` downloads files for them (`download.py`).
`numbering_plan.py` loads the installed phonenumbers data.

To add a file format, write a reader in `readers/` (`readers/base.py` describes what it yields, and
`readers/csv_rows.py` has the base of CSV formats) and list it in `formats.py`.
"""
