"""The rows that readers of file formats yield, and their shared functions.

A reader is a generator over the lines of one decoded file. It yields a tuple for each number, in the order of the file,
and a Rejected for each row that it cannot read; it never guesses, and never raises for a single row. It raises
UnreadableFile when the file as a whole cannot be read.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from functools import lru_cache

from core import numbers
from core.text import clean_text

#: Line, number, name, location. Name or location may be empty, not both.
ContactRow = tuple[int, int, str, str]
#: Line, number, source, day, total, robocalls, subject, ticket. Subject and ticket may be empty. Rows with the same
#: ticket are one complaint; with WHOLE_COUNT instead of a ticket, the row is the number's complete count for its day.
ComplaintRow = tuple[int, int, str, date, int, int, str, str]
#: The version of a block list; yielded before its rows.
ListVersion = int

WHOLE_COUNT = "="
MAX_SOURCE = 32
MAX_SUBJECT = 100

NOT_UTF8 = "not UTF-8 (set --encoding)"
NO_NAME_OR_LOCATION = "neither a name nor a location"
NO_NUMBER = "no number"
REPEATED = "repeats an earlier row"
#: Counted as repeated, and not listed: many programs write a number as both mobile and home.
REPEATED_IN_CONTACT = "repeats a number of its contact"
IN_THE_FUTURE = "the day is in the future"
#: What tells a file's format, such as the names of its columns, is in so many of its first lines, and characters.
BEGIN_LINES, BEGIN_CHARACTERS = 50, 256 * 1024
BLANK = "\ufeff \t\r\n"
#: A byte that could not be decoded (PEP 383).
UNDECODED = re.compile("[\\udc80-\\udcff]")


class UnreadableFile(Exception):
    """The file as a whole cannot be read; the message says why."""


def begin_of(lines: Iterable[str]) -> Iterator[tuple[int, str]]:
    """The first lines with their numbers from 1, from the first that is not blank: at most BEGIN_LINES, and
    BEGIN_CHARACTERS but for the last one."""
    count = size = 0
    for number, line in enumerate(lines, 1):
        if not count and not line.strip(BLANK):
            continue
        yield number, line
        count, size = count + 1, size + len(line)
        if count == BEGIN_LINES or size > BEGIN_CHARACTERS:
            return


@dataclass(frozen=True, slots=True)
class Rejected:
    """A row that cannot be used. `reason` is one of few, for counting; `number` is masked, and None where none could be
    read; `detail` is specific to this row and never quotes it; `contact` is the name of its contact, or `card 7`."""

    line: int
    reason: str
    number: str | None = None
    detail: str = ""
    contact: str = field(default="", compare=False)


def rejected(line: int, reason: object, number: int | None = None, detail: str = "") -> Rejected:
    """A Rejected with the number masked."""
    return Rejected(line, str(reason), None if number is None else numbers.mask(str(number)), detail)


def rejected_text(line: int, reason: object, text: str) -> Rejected:
    """A Rejected with the number that `text` may be, masked."""
    try:
        return rejected(line, reason, int(numbers.parse_typed(text)))
    except numbers.InvalidNumber:
        return rejected(line, reason)


def location(city: str, state: str, country: str) -> str:
    """`City, State`, or the one of them that is known, or the country."""
    city, state = clean_text(city), clean_text(state)
    if city.casefold() == state.casefold():
        state = ""
    return clean_text(", ".join(filter(None, (city, state))) or country)


class InvalidCell(Exception):
    """A cell that makes its row unusable; the message says why."""


def parse_number(text: str, region: str | None = None, *, is_coded: bool = False) -> int:
    """As numbers.parse_listed; `is_coded`: as numbers.parse_coded. Raises InvalidCell."""
    try:
        return int(numbers.parse_coded(text) if is_coded else numbers.parse_listed(text, region))
    except numbers.InvalidNumber as error:
        raise InvalidCell(f"number {error}" if text.strip() else NO_NUMBER) from None


def contact_rows(
    entries: Iterable[tuple[int, str, str, str] | Rejected],
    region: str | None,
    parse: Callable[..., int] = parse_number,
    *,
    line: int,
    label: str = "",
) -> Iterator[ContactRow | Rejected]:
    """The rows of one contact: of each entry its line, the text that `parse` reads as a number, name and location. A
    number that occurs twice counts once. A contact without entries is rejected at `line`. `label`: see label_of."""
    seen: set[int] = set()
    is_empty = True
    for entry in entries:
        is_empty = False
        if isinstance(entry, Rejected):
            yield replace(entry, contact=label)
            continue
        line, text, name, location = entry
        try:
            number = parse(text, region)
        except InvalidCell as error:
            yield replace(rejected_text(line, error, text), contact=label)
            continue
        if number in seen:
            yield rejected(line, REPEATED_IN_CONTACT, number)
            continue
        seen.add(number)
        if not (name + location).isascii() and UNDECODED.search(name + location):
            yield replace(rejected(line, NOT_UTF8, number), contact=label)
        elif name or location:
            yield line, number, name, location
        else:
            yield replace(rejected(line, NO_NAME_OR_LOCATION, number), contact=label)
    if is_empty:
        yield Rejected(line, NO_NUMBER, contact=label)


def label_of(name: str, otherwise: str = "") -> str:
    """How a contact with this name is named in a list of rejected rows: not by a number, nor by what is not UTF-8."""
    is_number = sum(map(str.isdecimal, name)) >= numbers.MIN_DIGITS
    return otherwise if is_number or UNDECODED.search(name) else name or otherwise


def parse_source(text: str) -> str:
    """The name of a source. Raises InvalidCell."""
    name = clean_text(text)
    if not 1 <= len(name) <= MAX_SOURCE:
        raise InvalidCell(f"source must have 1 to {MAX_SOURCE} characters")
    return name


@lru_cache(maxsize=4096)
def parse_day(text: str, parse: Callable[[str], date], today: date) -> date:
    """The day that `parse` returns. Tomorrow is valid: it has begun east of Greenwich. Raises InvalidCell."""
    try:
        day = parse(text.strip())
    except ValueError:
        raise InvalidCell("no date such as 2026-01-31") from None
    if day > today + timedelta(days=1):
        raise InvalidCell(IN_THE_FUTURE)
    return day


def parse_subject(text: str) -> str:
    """The subject of a complaint: one line of at most MAX_SUBJECT characters."""
    return clean_text(text)[:MAX_SUBJECT].rstrip()
