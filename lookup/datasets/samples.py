"""Sample data for a first look. Every number is reserved for fiction by its regulator, or published by its owner.

Reserved: North America 555-0100 to 555-0199; Ofcom's, Bundesnetzagentur's, ARCEP's, PTS's and ACMA's numbers for drama.
"""

import csv
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from django.db import transaction

from lookup.models import ComplaintDay, Contact, Dataset, NumberRule

#: Its search knows all four fields: a rule gives name and spam, the numbering plan the place (Berlin).
DEMO_NUMBER = "493023125555"
SAMPLES = "samples"

_FOLDER = Path(__file__).parent / "sample"
_SPAM = {"yes": True, "no": False, "": None}


def load_samples(*, today: date | None = None) -> bool:
    """Load the sample contacts, complaints and rules, once in a database's life.

    The complaints' ages count from `today` (default: UTC's).
    Returns whether it did. What the operator has for the same number stays, and what he deletes does not come back.
    """
    today = today or datetime.now(UTC).date()
    contacts = [
        Contact(number=int(row["number"]), name=row["name"], location=row["location"]) for row in _rows("contacts")
    ]
    complaints = [
        ComplaintDay(
            number=int(row["number"]),
            source="sample",
            day=today - timedelta(days=int(row["age_days"])),
            total=int(row["total"]),
            robocalls=int(row["robocalls"]),
        )
        for row in _rows("complaints")
    ]
    rules = [
        NumberRule(number=int(row["number"]), spam=_SPAM[row["spam"]], name=row["name"], note=row["note"])
        for row in _rows("rules")
    ]
    with transaction.atomic():
        rows = len(contacts) + len(complaints) + len(rules)
        _, first = Dataset.objects.get_or_create(name=SAMPLES, defaults={"version": "1", "rows": rows})
        if first:
            Contact.objects.bulk_create(contacts, ignore_conflicts=True)
            ComplaintDay.objects.bulk_create(complaints, ignore_conflicts=True)
            NumberRule.objects.bulk_create(rules, ignore_conflicts=True)
    return first


def _rows(name: str) -> Iterator[dict[str, str]]:
    with (_FOLDER / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)
