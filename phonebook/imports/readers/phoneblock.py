"""Reader of PhoneBlock's block list, full or incremental: `GET /blocklist?format=json[&since=V]`.

    {"numbers": [{"phone": "+4930…", "rating": "G_FRAUD", "votes": 4, "lastActivity": 1710000000000}], "version": 42}

Votes are totals, not changes; 0 in an incremental list removes the number. The vendor's own examples lack
`lastActivity` (milliseconds since 1970, 0 if never set) and have ratings outside its own enumeration.
"""

from collections.abc import Iterator
from datetime import UTC, date, datetime
from typing import Annotated, Any

import msgspec

from phonebook.imports.readers import base
from phonebook.imports.readers.base import ComplaintRow, InvalidCell, ListVersion, Rejected, UnreadableFile
from phonebook.models import MAX_COUNT

SOURCE = "phoneblock"

#: The whole file is in memory while it is decoded.
MAX_CHARACTERS = 256 * 2**20

_INVALID_TIME = "lastActivity must be milliseconds since 1970"


class _Blocklist(msgspec.Struct):
    #: Entries are decoded one by one, so that an invalid one does not affect the others.
    numbers: list[msgspec.Raw]
    version: Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)] | None = None


def recognizes(first_line: str) -> bool:
    return first_line.lstrip("\ufeff \t\r\n").startswith("{")


def read(
    lines: Iterator[str], *, source: str, today: date, oldest_day: date | None = None
) -> Iterator[ComplaintRow | Rejected | ListVersion]:
    """Yield a row for each entry, with the line at which it begins and its votes as the total; a number occurs once.
    `today` (in UTC) is the day of an entry without one; the list has entries of any age, whatever `oldest_day` is.
    Raises UnreadableFile."""
    try:
        data = _join(lines).removeprefix("\ufeff").encode(errors="surrogateescape")
        blocklist = msgspec.json.decode(data, type=_Blocklist)
    except msgspec.ValidationError:
        raise UnreadableFile("not a block list: `numbers` must be a list, and any `version` a number") from None
    except (ValueError, RecursionError):
        raise UnreadableFile("not JSON, or incomplete") from None
    if blocklist.version is not None:
        yield ListVersion(blocklist.version)
    line, begin, end = 1, 0, 0
    seen: set[int] = set()
    for position, raw in enumerate(blocklist.numbers, start=1):
        previous, begin = begin, data.index(raw, end)
        line += data.count(b"\n", previous, begin)
        end = begin + len(raw)
        number = None
        try:
            entry = _entry(raw)
            number = _number(entry)
            if number in seen:
                raise InvalidCell(base.REPEATED)
            rating = entry.get("rating")
            subject = base.parse_subject(rating) if isinstance(rating, str) else ""
            row = (line, number, source, _day(entry, today), _votes(entry), 0, subject, "")
        except InvalidCell as error:
            yield base.rejected(line, error, number, f"entry {position}")
        else:
            seen.add(number)
            yield row


def _join(lines: Iterator[str]) -> str:
    taken, size = [], 0
    for line in lines:
        taken.append(line)
        if (size := size + len(line)) > MAX_CHARACTERS:
            raise UnreadableFile(f"larger than {MAX_CHARACTERS // 2**20} MiB")
    return "".join(taken)


def _entry(raw: bytes) -> dict[str, Any]:
    try:
        entry = msgspec.json.decode(raw)
    except UnicodeDecodeError:
        raise InvalidCell(base.NOT_UTF8) from None
    except ValueError:
        entry = None
    if not isinstance(entry, dict):
        raise InvalidCell('not an object such as {"phone": …, "votes": …}')
    return entry


def _number(entry: dict[str, Any]) -> int:
    phone = entry.get("phone")
    if phone is None or isinstance(phone, str):
        return base.parse_number(phone or "")
    raise InvalidCell("number must be a string")


def _votes(entry: dict[str, Any]) -> int:
    votes = entry.get("votes")
    if type(votes) is int and 0 <= votes <= MAX_COUNT:
        return votes
    raise InvalidCell("votes must be a whole number")


def _day(entry: dict[str, Any], today: date) -> date:
    milliseconds = entry.get("lastActivity")
    if milliseconds is None:
        return today
    if type(milliseconds) is not int or milliseconds < 0:
        raise InvalidCell(_INVALID_TIME)
    if milliseconds == 0:
        return today
    try:
        day = datetime.fromtimestamp(milliseconds // 1000, UTC).date()
    except (OverflowError, ValueError, OSError):
        raise InvalidCell(_INVALID_TIME) from None
    return base.parse_day(day.isoformat(), date.fromisoformat, today)
