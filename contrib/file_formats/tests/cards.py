"""Helpers that read vCards from text."""

from collections.abc import Iterable, Iterator

from contrib.file_formats import vcard
from phonebook.imports.readers.base import ContactRow, Rejected

NUMBER = 12125550142
MASKED = "1********42"


def lines_of(file: bytes) -> Iterator[str]:
    return (f"{line}\n" for line in file.decode(errors="surrogateescape").split("\n"))


def read(file: str | bytes, region: str | None = None) -> list[ContactRow | Rejected]:
    raw = file if isinstance(file, bytes) else file.encode()
    found = list(vcard.read(lines_of(raw), region=region))
    # Windows line ends make no difference.
    assert list(vcard.read(lines_of(raw.replace(b"\n", b"\r\n")), region=region)) == found
    return found


def of_card(*properties: str | bytes, region: str | None = None) -> list[ContactRow | Rejected]:
    """The rows of a card; its first property is in line 2."""
    inside = (line if isinstance(line, bytes) else line.encode() for line in properties)
    return read(b"\n".join([b"BEGIN:VCARD", *inside, b"END:VCARD"]), region)


def rows(found: Iterable[ContactRow | Rejected]) -> list[ContactRow]:
    ours = [row for row in found if not isinstance(row, Rejected)]
    assert ours == found
    return ours
