"""Sample data to try the service. Every number is reserved for fiction by its regulator, or published by its owner.

Reserved: North America 555-0100 to 555-0199; Ofcom's, Bundesnetzagentur's, ARCEP's, PTS's and ACMA's drama numbers.
"""

import csv
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from django.db import transaction

from phonebook.models import ComplaintDay, Contact, Dataset, NumberRule

#: A search for it returns all four fields: name and spam from a rule, the location (Berlin) from the numbering plan.
DEMO_NUMBER = "493023125555"

_FOLDER = Path(__file__).parent / "sample"
_SPAM = {"yes": True, "no": False, "": None}


def load_sample_data(*, today: date | None = None) -> bool:
    """Load the sample contacts, complaints and rules, unless this database has had them. Returns whether it did.

    Complaints are dated back from `today` (default: in UTC). Existing rows are kept, and deleted ones do not return.
    """
    today = today or datetime.now(UTC).date()
    contacts = [Contact(**row) for row in _rows("contacts")]
    complaints = [
        ComplaintDay(source="sample", day=today - timedelta(days=int(row.pop("age_days"))), **row)
        for row in _rows("complaints")
    ]
    rules = [NumberRule(**row | {"spam": _SPAM[row["spam"]]}) for row in _rows("rules")]
    with transaction.atomic():
        rows = len(contacts) + len(complaints) + len(rules)
        _, created = Dataset.objects.get_or_create(name="samples", defaults={"version": "1", "rows": rows})
        if created:
            Contact.objects.bulk_create(contacts, ignore_conflicts=True)
            ComplaintDay.objects.bulk_create(complaints, ignore_conflicts=True)
            NumberRule.objects.bulk_create(rules, ignore_conflicts=True)
    return created


def _rows(name: str) -> Iterator[dict[str, Any]]:
    with (_FOLDER / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)
