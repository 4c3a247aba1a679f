"""What every reader of a file format hands out, and what they share.

A reader is a generator over the lines of one decoded file. It hands out a tuple for each number that it reads, in the
order of the file, and a Rejected for each row that it cannot read; it never guesses, and never raises for a row. A file
that cannot be read as a whole raises Unreadable.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, timedelta
from functools import lru_cache

from lookup import numbers
from lookup.answers import clean_text

#: Line, number, name, location. Name or location may be empty, not both.
ContactRow = tuple[int, int, str, str]
#: Line, number, source, day, total, robocalls, subject, ticket. Subject and ticket may be empty: a ticket that comes
#: twice is one complaint. WHOLE_COUNT instead of a ticket: the row is the number's count of its day.
ComplaintRow = tuple[int, int, str, date, int, int, str, str]

WHOLE_COUNT = "="
MAX_SOURCE = 32
MAX_SUBJECT = 100

NOT_UTF8 = "not UTF-8 (--encoding names another)"
NO_NAME_OR_PLACE = "neither a name nor a location"
REPEATED = "repeats an earlier row"
IN_THE_FUTURE = "the day is in the future"
#: What a byte that could not be decoded has become (PEP 383).
UNDECODED = re.compile("[\\udc80-\\udcff]")


class Unreadable(Exception):
    """The file as a whole cannot be read; the message says why, and where."""


@contextmanager
def naming(name: str) -> Iterator[None]:
    """What is Unreadable inside is so in the file of this name."""
    try:
        yield
    except Unreadable as error:
        if str(error).startswith(f"{name}: "):
            raise
        raise Unreadable(f"{name}: {error}") from error


@dataclass(frozen=True, slots=True)
class Rejected:
    """A row that cannot be used. `reason` is one of few, for counting; `number` is masked, and None where there is none
    to show; `detail` belongs to this row alone, and never holds what stands in it."""

    line: int
    reason: str
    number: str | None = None
    detail: str = ""


def rejected(line: int, reason: object, number: int | None = None, detail: str = "") -> Rejected:
    """With the number masked, where it could be read."""
    return Rejected(line, str(reason), None if number is None else numbers.mask(str(number)), detail)


class BadCell(Exception):
    """Why a row cannot be used."""


def number(text: str, region: str | None = None) -> int:
    """As numbers.read_listed. Raises BadCell."""
    try:
        return int(numbers.read_listed(text, region))
    except numbers.InvalidNumber as error:
        raise BadCell(f"number {error}" if text.strip() else "no number") from None


class InvalidSource(BadCell):
    """No name for a source: empty, or longer than MAX_SOURCE characters."""


@lru_cache(maxsize=1024)
def source(text: str) -> str:
    """The name of a source. Raises InvalidSource, which is a BadCell too."""
    name = clean_text(text)
    if not 1 <= len(name) <= MAX_SOURCE:
        raise InvalidSource(f"source must have 1 to {MAX_SOURCE} characters")
    return name


@lru_cache(maxsize=4096)
def day(text: str, read: Callable[[str], date], today: date) -> date:
    """The day that `read` makes of `text`; tomorrow is taken too, for it begins east of Greenwich. Raises BadCell."""
    try:
        found = read(text.strip())
    except ValueError:
        raise BadCell("no date such as 2026-01-31") from None
    if found > today + timedelta(days=1):
        raise BadCell(IN_THE_FUTURE)
    return found


@dataclass(frozen=True, slots=True)
class ListVersion:
    """Which version of a list a file holds: handed out before its rows."""

    version: int


ContactReader = Callable[..., Iterator[ContactRow | Rejected]]
ComplaintReader = Callable[..., Iterator[ComplaintRow | Rejected | ListVersion]]
