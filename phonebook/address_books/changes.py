"""What a fetcher returns about an address book."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from core.hashing import keyed_hash
from phonebook.imports.readers.base import ContactRow, Rejected

NO_CARD = "the server did not return the card"


class FetchFailed(Exception):
    """The address book could not be read. The message is for operators: no URL, credentials or contact."""


@dataclass(slots=True)
class Card:
    """A card that is new or may have changed. `label`: where the operator finds it, for the list of rejected rows."""

    label: str
    version: str = ""
    contacts: dict[int, tuple[str, str]] = field(default_factory=dict)
    rejected: list[Rejected] = field(default_factory=list)

    def add(self, rows: Iterator[ContactRow | Rejected]) -> None:
        """Add the rows of a reader; of a number's rows the first counts."""
        for row in rows:
            if isinstance(row, Rejected):
                self.rejected.append(row)
            else:
                _line, number, name, location = row
                self.contacts.setdefault(number, (name, location))


@dataclass(slots=True)
class Changes:
    """`cards`: by key. `removed`: keys of cards that are gone. `sync_token`: for the next run, empty to list all then.
    `not_returned`: cards that the server listed but did not return; they stay as they are."""

    cards: dict[str, Card] = field(default_factory=dict)
    removed: set[str] = field(default_factory=set)
    sync_token: str = ""
    not_returned: list[Card] = field(default_factory=list)


def digest(text: str) -> str:
    """A key or version as it is stored: it may be long, and contain names and numbers."""
    return keyed_hash("address book", text).hex()[:32]


def label(text: str) -> str:
    """A path or id of the server as it may be shown in a terminal."""
    return "".join(character if character.isprintable() else "?" for character in text)[:200]
