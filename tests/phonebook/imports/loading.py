"""Imports of a few rows, and what is stored after them."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from phonebook.imports import COMPLAINT_FORMATS
from phonebook.imports.complaints import ComplaintImport
from phonebook.imports.contacts import ContactImport
from phonebook.imports.files import open_text
from phonebook.imports.pipeline import Import
from phonebook.models import ComplaintDay, Contact

FIRST = 12_125_550_100
TODAY = datetime.now(UTC).date()
Write = Callable[..., str]


def load(importer: Import, path: str) -> int:
    """Import the file. Returns its batch."""
    importer.run([open_text(path)])
    assert importer.batch
    return importer.batch.pk


def contacts(write: Write, rows: dict[int, str]) -> int:
    lines = [f"{FIRST + n},{name},Chicago\n" for n, name in rows.items()]
    path = write("number,name,location\n" + "".join(lines))
    return load(ContactImport(on_reject=lambda *row: None), path)


def complaints(write: Write, rows: dict[tuple[int, int], int]) -> int:
    lines = [f"{FIRST + n},{TODAY - timedelta(days=age)},{total},Subject {total}\n" for (n, age), total in rows.items()]
    path = write("number,day,total,subject\n" + "".join(lines))
    return load(ComplaintImport(on_reject=lambda *row: None, today=TODAY, allow_loss=True), path)


def block_list(write: Write, version: int, votes: dict[int, int], *, full: bool = False) -> int:
    if not any(each.is_list for each in COMPLAINT_FORMATS):
        pytest.skip("no add-on with a format of block lists")
    entries = ",".join(f'{{"phone":"+{FIRST + n}","rating":"G_FRAUD","votes":{count}}}' for n, count in votes.items())
    path = write(f'{{"numbers":[{entries}],"version":{version}}}', "list.json")
    importer = ComplaintImport(on_reject=lambda *row: None, today=TODAY, full=full, allow_loss=True)
    return load(importer, path)


def stored(*fields: str) -> list[Any]:
    """All rows, with all columns but the primary key."""
    names = ("number", "name", "location", "book", "updated_at", "import_batch")
    days = ("number", "source", "day", "total", "robocalls", "subject__text", "import_batch")
    return [
        *Contact.objects.order_by("number").values(*names),
        *ComplaintDay.objects.order_by("number", "day").values(*days),
    ]


def names() -> dict[int, str]:
    return {row.number - FIRST: row.name for row in Contact.objects.order_by("number")}


def edit(n: int, name: str) -> None:
    """As the console does it."""
    Contact.objects.update_or_create(number=FIRST + n, defaults={"name": name, "book": None, "import_batch": None})
