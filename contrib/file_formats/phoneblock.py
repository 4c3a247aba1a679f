"""Reader of PhoneBlock's block list, full or incremental: `GET /blocklist?format=json[&since=V]`.

    {"numbers": [{"phone": "+4930…", "rating": "G_FRAUD", "votes": 4, "lastActivity": 1710000000000}], "version": 42}

Votes are totals, not changes; 0 in an incremental list removes the number. The vendor's own examples lack
`lastActivity` (milliseconds since 1970, 0 if never set) and have ratings outside its own enumeration.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from phonebook.imports.readers import base
from phonebook.imports.readers.base import ComplaintRow, InvalidCell, ListVersion, Rejected, UnreadableFile
from phonebook.models import MAX_COUNT

#: The whole file is in memory while it is decoded.
MAX_CHARACTERS = 256 * 2**20


# JSON has no control characters in its texts, and one of them would make the whole list invalid; elsewhere they are
# spaces.
_WITHOUT_CONTROL = bytes(max(byte, 0x20) for byte in range(256))


class _Blocklist(Struct):
    #: Entries are decoded one by one, so that an invalid one does not affect the others.
    numbers: list[msgspec.Raw]
    version: Annotated[int, Meta(ge=0, le=2**63 - 1)] | None = None


class _Number(Struct):
    #: Decoded before the rest of its entry, so that an invalid entry can be reported with its number.
    phone: str = ""


class _Entry(Struct, rename="camel"):
    votes: Annotated[int, Meta(ge=0, le=MAX_COUNT)]
    last_activity: Annotated[int, Meta(ge=0, lt=10**14)] | None = None
    rating: Any = None


def recognizes(begin: Sequence[str]) -> int:
    return int(any(line.lstrip(base.BLANK).startswith("{") for line in begin[:1]))


def read(
    lines: Iterator[str], *, source: str, today: date, oldest_day: date | None = None
) -> Iterator[ComplaintRow | Rejected | ListVersion]:
    """Yield a row for each entry, with its position instead of a line and its votes as the total; a number occurs once.
    `today` (in UTC) is the day of an entry without one; the list has entries of any age, whatever `oldest_day` is.
    Raises UnreadableFile."""
    try:
        data = _join(lines).removeprefix("\ufeff").encode(errors="surrogateescape").translate(_WITHOUT_CONTROL)
        blocklist = msgspec.json.decode(data, type=_Blocklist)
    except msgspec.ValidationError:
        raise UnreadableFile("not a block list: `numbers` must be a list, and any `version` a number") from None
    except (ValueError, RecursionError):
        raise UnreadableFile("not JSON, or incomplete") from None
    if blocklist.version is not None:
        yield ListVersion(blocklist.version)
    seen: set[int] = set()
    for position, raw in enumerate(blocklist.numbers, start=1):
        number = None
        try:
            number = base.parse_number(msgspec.json.decode(raw, type=_Number).phone)
            if number in seen:
                raise InvalidCell(base.REPEATED)
            entry = msgspec.json.decode(raw, type=_Entry)
            subject = base.parse_subject(entry.rating) if isinstance(entry.rating, str) else ""
            row = (position, number, source, _day(entry.last_activity, today), entry.votes, 0, subject, "")
        except UnicodeDecodeError:
            yield base.rejected(position, base.NOT_UTF8, number)
        except (InvalidCell, msgspec.DecodeError) as error:
            yield base.rejected(position, error, number)
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


def _day(milliseconds: int | None, today: date) -> date:
    """Raises InvalidCell."""
    if not milliseconds:
        return today
    day = datetime.fromtimestamp(milliseconds // 1000, UTC).date()
    return base.parse_day(day.isoformat(), date.fromisoformat, today)
