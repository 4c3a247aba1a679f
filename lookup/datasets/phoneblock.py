"""Reader of PhoneBlock's blocklist, whole or incremental: `GET /blocklist?format=json[&since=V]`.

    {"numbers": [{"phone": "+4930…", "rating": "G_FRAUD", "votes": 4, "lastActivity": 1710000000000}], "version": 42}

Votes are what the list has now, not what came in since; 0 in an incremental list: the number has left it. The
vendor's own examples lack `lastActivity` (milliseconds since 1970, 0 where it was never set) and have ratings that are
none of its own enumeration.
"""

from collections.abc import Iterator
from datetime import date, timedelta
from typing import Annotated, Any

import msgspec

from lookup.answers import clean_text
from lookup.datasets import reading
from lookup.datasets.reading import BadCell, ComplaintRow, ListVersion, Rejected, Unreadable

SOURCE = "phoneblock"

MAX_CHARACTERS = 256 * 2**20
MAX_VOTES = 2**31 - 1
_EPOCH = date(1970, 1, 1)
_NO_TIME = "lastActivity must be milliseconds since 1970"


class _Blocklist(msgspec.Struct):
    #: Undecoded, so that a bad entry costs no other.
    numbers: list[msgspec.Raw]
    version: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)] | None = None


def recognises(first_line: str) -> bool:
    return first_line.lstrip("\ufeff \t\r\n").startswith("{")


def read(lines: Iterator[str], *, source: str, today: date) -> Iterator[ComplaintRow | Rejected | ListVersion]:
    """One row for each entry, `total` being its votes, at the line at which it begins; a number comes once.
    `today` is UTC's, and the day of an entry that has none. Raises Unreadable."""
    try:
        data = _text(lines).encode(errors="surrogateescape")
        blocklist = msgspec.json.decode(data, type=_Blocklist)
    except msgspec.ValidationError:
        raise Unreadable(
            "the file is no blocklist: it needs a list `numbers`, and any `version` must be a number"
        ) from None
    except (ValueError, RecursionError):
        raise Unreadable("the file is no JSON, or not all of it") from None
    if blocklist.version is not None:
        yield ListVersion(blocklist.version)
    line, begin, end = 1, 0, 0
    seen: set[int] = set()
    for position, raw in enumerate(blocklist.numbers, start=1):
        last, begin = begin, data.index(raw, end)
        line += data.count(b"\n", last, begin)
        end = begin + len(raw)
        number = None
        try:
            entry = _entry(raw)
            number = _number(entry)
            if number in seen:
                raise BadCell(reading.REPEATED)
            row = (line, number, source, _day(entry, today), _votes(entry), 0, _rating(entry), "")
        except BadCell as error:
            yield reading.rejected(line, error, number, f"entry {position}")
        else:
            seen.add(number)
            yield row


def _text(lines: Iterator[str]) -> str:
    taken, size = [], 0
    for line in lines:
        taken.append(line)
        size += len(line)
        if size > MAX_CHARACTERS:
            raise Unreadable(f"the file is larger than {MAX_CHARACTERS // 2**20} MiB")
    return "".join(taken).removeprefix("\ufeff")


def _entry(raw: bytes) -> dict[str, Any]:
    try:
        entry = msgspec.json.decode(raw)
    except UnicodeDecodeError:
        raise BadCell(reading.NOT_UTF8) from None
    except ValueError:
        entry = None
    if not isinstance(entry, dict):
        raise BadCell('not an object such as {"phone": …, "votes": …}')
    return entry


def _number(entry: dict[str, Any]) -> int:
    phone = entry.get("phone")
    if phone is None or isinstance(phone, str):
        return reading.number(phone or "")
    raise BadCell("number must be a string")


def _votes(entry: dict[str, Any]) -> int:
    votes = entry.get("votes")
    if type(votes) is int and 0 <= votes <= MAX_VOTES:
        return votes
    raise BadCell("votes must be a whole number")


def _day(entry: dict[str, Any], today: date) -> date:
    milliseconds = entry.get("lastActivity")
    if milliseconds is None:
        return today
    if type(milliseconds) is not int or milliseconds < 0:
        raise BadCell(_NO_TIME)
    if milliseconds == 0:
        return today
    try:
        day = _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        raise BadCell(_NO_TIME) from None
    return reading.day(day.isoformat(), date.fromisoformat, today)


def _rating(entry: dict[str, Any]) -> str:
    rating = entry.get("rating")
    return clean_text(rating)[: reading.MAX_SUBJECT].rstrip() if isinstance(rating, str) else ""
