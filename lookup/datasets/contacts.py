"""The verb behind `import_contacts`."""

from lookup.datasets import bulk, formats
from lookup.datasets.bulk import NOT_GONE, Table
from lookup.datasets.files import TextFile
from lookup.datasets.importers import NOBODY, Imported, OnReject, Rows, Watch
from lookup.datasets.reading import naming
from lookup.models import Contact

CONTACTS = Table(Contact, key=("number",), values=("name", "location"), stamp="updated_at")


def import_contacts(
    *,
    file: TextFile,
    on_reject: OnReject,
    format_name: str | None = None,
    region: str | None = None,
    dry_run: bool = False,
    watch: Watch = NOBODY,
) -> Imported:
    """Add or replace contacts: one a number, the first of the file.

    `format_name`: of formats.CONTACTS; None: recognised. `region` (ISO 3166-1 alpha-2): where numbers without a plus
    are dialled. Raises Unreadable, with nothing changed, when the file cannot be read or has rows but no good one.
    """
    rows = Rows(on_reject)
    with naming(file.name):
        chosen = format_name or formats.recognise(formats.CONTACTS, file.first_line)
    with bulk.workbench() as bench, naming(file.name):
        watch.reading(file)
        read = formats.CONTACTS[chosen].read(file.lines, region=region)
        good = bench.fill("given", _CONTACT_COLUMNS, rows.of(file, read), watch.read)
        rows.require_any(good)
        with bulk.one_at_a_time(CONTACTS):
            good -= rows.drop_newly_blocked(bench)
            kept = bench.derive("ready", _FIRST)
            repeated = rows.repeated(bench, "number") if kept < good else 0
            watch.merging(kept)
            counts = bulk.merge(bench=bench, table=CONTACTS, ready="ready", dry_run=dry_run, progress=watch.merged)
        if not dry_run:
            watch.finished()
    return rows.became(counts, good=good, formats=[chosen], repeated=repeated)


_CONTACT_COLUMNS = {"place": "bigint", "number": "bigint", "name": "text", "location": "text"}
# The first of each number.
_FIRST = f"""
SELECT number, name, location, {NOT_GONE}
FROM (SELECT number, name, location, row_number() OVER (PARTITION BY number ORDER BY place) AS nth FROM given) numbered
WHERE nth = 1 ORDER BY number
"""  # noqa: S608
