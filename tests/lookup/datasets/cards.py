"""Files of vCards, as the reader gets them."""

from collections.abc import Iterator

from lookup.datasets import vcard
from lookup.datasets.reading import ContactRow, Rejected

NUMBER = 12125550142


def lines_of(file: bytes) -> Iterator[str]:
    return (f"{line}\n" for line in file.decode(errors="surrogateescape").split("\n"))


def read(file: str | bytes, region: str | None = None) -> list[ContactRow | Rejected]:
    raw = file if isinstance(file, bytes) else file.encode()
    found = list(vcard.read(lines_of(raw), region=region))
    # What Windows writes is the same file.
    assert list(vcard.read(lines_of(raw.replace(b"\n", b"\r\n")), region=region)) == found
    return found
