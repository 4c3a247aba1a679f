"""Reader of vCard files: 2.1 (versit, 1996), 3.0 (RFC 2426) and 4.0 (RFC 6350), also mixed in one file.

A card hands out a row for each of its telephone numbers, all with the card's name and place. A card without a number
is normal, and hands out nothing. One card is held at a time, and of it only what the rows need.
"""

import re
from binascii import a2b_qp
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from encodings import normalize_encoding
from encodings.aliases import aliases
from functools import lru_cache
from urllib.parse import unquote

from lookup import numbers
from lookup.answers import clean_text
from lookup.datasets import reading
from lookup.datasets.reading import BadCell, ContactRow, Rejected

#: Characters in a property, unfolded, with its name and parameters.
MAX_PROPERTY = 16 * 1024
#: Numbers and bad lines in a card.
MAX_ENTRIES = 1_000

NO_END = "a card that does not end"
OUTSIDE = "outside a card"
NO_PROPERTY = "no property"
TOO_LONG = "a property longer than 16 KiB"
TOO_MANY = f"more than {MAX_ENTRIES:,} numbers and bad lines in a card: the rest of it is left out"

_BEGIN = re.compile(r"[\s\ufeff]*+BEGIN\s*+:\s*+VCARD\s*+", re.ASCII | re.IGNORECASE)
# Files put together byte by byte run into one another where the first has no line end.
_END = re.compile(r"\s*+END\s*+:\s*+VCARD[\s\ufeff]*+(BEGIN\s*+:\s*+VCARD\s*+)?", re.ASCII | re.IGNORECASE)
# Up to the first colon outside quotation marks.
_HEAD = re.compile(r'[^":]*+(?:"[^"]*+"[^":]*+)*+:')
_PARAMETER = re.compile(r';((?:[^";]|"[^"]*+")*+)')
_FOLD = re.compile(r"\n[ \t]")
_NAMES = ("FN", "N", "ORG")
_USED = frozenset({*_NAMES, "ADR", "TEL"})


def recognises(first_line: str) -> bool:
    """Whether a file whose first line that is not blank is this one holds vCards."""
    return _BEGIN.fullmatch(first_line) is not None


def read(lines: Iterator[str], *, region: str | None) -> Iterator[ContactRow | Rejected]:
    """`line` is where a TEL begins, counted from 1. Bytes that are not UTF-8 come as U+DC80 to U+DCFF (PEP 383): a
    property's CHARSET may still read them."""
    card: _Card | None = None
    stray = False
    for line in _unfolded(lines):
        if line.end and card is not None:
            if card.agents:
                card.agents -= 1
            else:
                yield from card.rows()
                card = None
            if not line.begin:
                continue
        if line.begin:
            if card is not None and card.agent_comes:
                card.begin_agent()
                continue
            if card is not None:
                yield Rejected(card.at, NO_END)
            card, stray = _Card(line.at, region), False
        elif card is not None:
            card.take(line)
        elif not stray:
            yield Rejected(line.at, OUTSIDE)
            stray = True
    if card is not None:
        yield Rejected(card.at, NO_END)


def _unfolded(lines: Iterator[str]) -> "Iterator[_Line]":
    """The lines that are not blank, each with those that continue it."""
    line: _Line | None = None
    for at, ended in enumerate(lines, start=1):
        text = ended.rstrip("\r\n")
        if line is not None:
            if line.goes_on(text):
                line.add(text)
                continue
            yield line
        line = _Line(at, text) if text and not text.isspace() else None
    if line is not None:
        yield line


class _Line:
    """A line as it is unfolded, of which no more than MAX_PROPERTY characters are kept."""

    __slots__ = ("at", "begin", "end", "head", "soft", "text", "too_long", "value_at")

    def __init__(self, at: int, text: str) -> None:
        self.at = at
        #: Each fold is still a line feed and a space or tab: which of them is text depends on the version.
        self.text = ""
        self.head: _Head | None = None
        self.value_at = 0
        self.too_long = False
        end = _END.fullmatch(text)
        self.end = end is not None
        self.begin = bool(end[1]) if end else _BEGIN.fullmatch(text) is not None
        self._keep(text)

    def goes_on(self, text: str) -> bool:
        """Whether `text` is a continuation."""
        if self.begin or self.end:
            return False
        if text[:1] in (" ", "\t"):
            return True
        if self.soft:
            # A value cut off at its soft break must not swallow the border between two cards.
            return not (_END.fullmatch(text) or _BEGIN.fullmatch(text))
        # Old exports do not indent the lines of a picture.
        return self.head is not None and self.head.base64 and text != "" and ":" not in text

    def add(self, text: str) -> None:
        """Take a continuation."""
        if self.soft:
            self.text = self.text.rstrip()[:-1]
        else:
            text = "\n" + text
        self._keep(text)

    def _keep(self, text: str) -> None:
        if not self.too_long:
            room = MAX_PROPERTY - len(self.text)
            self.too_long = len(text) > room
            self.text += text[:room]
            # Looked at anew only where it can have come to its colon: a picture without a head has no end of lines.
            if self.head is None and ":" in text and (head := _HEAD.match(self.text)):
                self._split(head.end())
        #: Ends with the soft line break of quoted-printable.
        self.soft = self.head is not None and self.head.quoted_printable and text.rstrip().endswith("=")

    def _split(self, value_at: int) -> None:
        self.value_at = value_at
        self.head = _head(self.text[: value_at - 1])

    def parsed(self) -> "_Head | None":
        """What stands before the value; None where this is no property."""
        if self.head is None and (colon := self.text.find(":")) >= 0:
            # A quotation mark was left open.
            self._split(colon + 1)
        return self.head

    def value(self, head: "_Head", *, folds_are_text: bool) -> str:
        """Unfolded and decoded; what cannot be decoded matches reading.UNDECODED."""
        value = self.text[self.value_at :]
        value = value.replace("\n", "") if folds_are_text else _FOLD.sub("", value)
        # Undecoded without a CHARSET: cut in two by a fold, perhaps. ESC: what ISO-2022 encodes is ASCII too.
        if head.quoted_printable or _has_undecoded(value) or (head.charset and "\x1b" in value):
            raw = _encoded(value)
            if head.quoted_printable:
                raw = a2b_qp(raw)
            value = raw.decode(head.charset or "utf-8", "replace").replace("\ufffd", "\udcff")
        return value


def _encoded(value: str) -> bytes:
    try:
        return value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return value.encode("utf-8", "surrogatepass")


@dataclass(frozen=True, slots=True)
class _Head:
    """What stands before a property's value. `name` is in upper case, without its group; `charset` is one that Python
    has, or None."""

    name: str
    quoted_printable: bool
    base64: bool
    charset: str | None
    preferred: bool


@lru_cache(maxsize=256)
def _head(text: str) -> _Head:
    text = _FOLD.sub("", text)
    name, semicolon, parameters = text.partition(";")
    values = defaultdict[str, set[str]](set)
    for parameter in _PARAMETER.findall(semicolon + parameters):
        key, equals, listed = parameter.replace('"', "").upper().partition("=")
        # 2.1 may leave the key out: TEL;CELL;QUOTED-PRINTABLE
        for named in (key.strip(),) if equals else ("TYPE", "ENCODING"):
            values[named].update(value.strip() for value in (listed if equals else key).split(","))
    return _Head(
        name=name.rpartition(".")[2].strip().upper(),
        quoted_printable="QUOTED-PRINTABLE" in values["ENCODING"],
        base64=not values["ENCODING"].isdisjoint({"B", "BASE64"}),
        charset=next(filter(None, map(_charset, sorted(values["CHARSET"]))), None),
        preferred="PREF" in values["TYPE"] or "1" in values["PREF"],
    )


# No others are asked for: Python remembers every name that it did not find, and has codecs that are no charsets.
_CHARSETS = frozenset({*aliases, *aliases.values(), "koi8_u"})


def _charset(name: str) -> str | None:
    name = normalize_encoding(name).lower()
    if name not in _CHARSETS:
        return None
    try:
        b"a".decode(name, "replace")
    except LookupError:
        return None
    return name


class _Card:
    """What is known of the card that is being read."""

    def __init__(self, at: int, region: str | None) -> None:
        self.at = at
        #: An empty AGENT came last: a BEGIN now is the agent's own card.
        self.agent_comes = False
        #: How many cards of agents, each within the other, are open.
        self.agents = 0
        self._region = region
        self._is_21 = False
        self._names = dict.fromkeys(_NAMES, "")
        self._place = ""
        self._preferred_place = ""
        #: In the order of the file: line and number, or what is wrong with a line.
        self._entries: list[tuple[int, int] | Rejected] = []
        self._numbers: set[int] = set()

    def begin_agent(self) -> None:
        self.agents += 1
        self.agent_comes = False

    def take(self, line: _Line) -> None:
        self.agent_comes = False
        head = line.parsed()
        name = head.name if head else ""
        if name == "AGENT":
            self._agent(line.text[line.value_at :])
        elif self.agents:
            return
        elif head is None:
            self._add(line.at, Rejected(line.at, NO_PROPERTY))
        elif line.too_long and name in _USED:
            self._add(line.at, Rejected(line.at, TOO_LONG))
        elif name == "VERSION":
            self._is_21 = line.text[line.value_at :].strip() == "2.1"
        elif name in _USED:
            value = line.value(head, folds_are_text=self._is_21)
            if name == "TEL":
                self._tel(line.at, value)
            elif name == "ADR":
                self._adr(value, head.preferred)
            else:
                self._names[name] = self._names[name] or self._name(name, value)

    def rows(self) -> Iterator[ContactRow | Rejected]:
        """What the card comes to, now that it has ended."""
        name = next(filter(None, self._names.values()), "")
        location = self._preferred_place or self._place
        reason = None
        if _has_undecoded(name) or _has_undecoded(location):
            reason = reading.NOT_UTF8
        elif not (name or location):
            reason = reading.NO_NAME_OR_PLACE
        for entry in self._entries:
            if isinstance(entry, Rejected):
                yield entry
            elif reason is None:
                yield *entry, name, location
            else:
                line, number = entry
                yield reading.rejected(line, reason, number)

    def _agent(self, value: str) -> None:
        # In 3.0 a whole card stands in the value, escaped, and is no concern of ours.
        if _BEGIN.fullmatch(value):
            self.begin_agent()
        else:
            self.agent_comes = not value.strip()

    def _tel(self, line: int, value: str) -> None:
        # Further numbers are not even remembered.
        if len(self._entries) > MAX_ENTRIES:
            return
        if _has_undecoded(value):
            self._add(line, Rejected(line, reading.NOT_UTF8))
            return
        text = _unescaped(value, self._is_21).strip()
        is_uri = text[:4].lower() == "tel:"
        if is_uri:
            text = text[4:].strip()
        if not text:
            return
        try:
            number = reading.number(_of_uri(text) if is_uri else text, self._region)
        except BadCell as error:
            self._add(line, Rejected(line, str(error), _masked(text)))
            return
        if number not in self._numbers:
            self._numbers.add(number)
            self._add(line, (line, number))

    def _adr(self, value: str, preferred: bool) -> None:
        parts = (_components(value, self._is_21) + [""] * 7)[3:7]
        locality, area, _postal_code, country = map(_text, parts)
        place = _text(", ".join(filter(None, dict.fromkeys((locality, area))))) or country
        self._place = self._place or place
        if preferred:
            self._preferred_place = self._preferred_place or place

    def _name(self, name: str, value: str) -> str:
        if name == "FN":
            return _text(_unescaped(value, self._is_21))
        parts = _components(value, self._is_21)
        if name == "ORG":
            return _text(parts[0])
        family, given, additional, prefix, suffix = (parts + [""] * 5)[:5]
        return _text(f"{prefix} {given} {additional} {family} {suffix}")

    def _add(self, line: int, entry: tuple[int, int] | Rejected) -> None:
        if len(self._entries) < MAX_ENTRIES:
            self._entries.append(entry)
        elif len(self._entries) == MAX_ENTRIES:
            self._entries.append(Rejected(line, TOO_MANY))


def _of_uri(text: str) -> str:
    """The number of a tel URI (RFC 3966), as reading.number takes it."""
    number, *parameters = text.split(";")
    number = unquote(number)
    if number.startswith("+"):
        return number
    for parameter in parameters:
        key, _, value = parameter.partition("=")
        if key.strip().lower() == "phone-context" and (context := unquote(value)).startswith("+"):
            return context + number
    return number


def _masked(text: str) -> str | None:
    try:
        return numbers.mask(numbers.read(text))
    except numbers.InvalidNumber:
        return None


def _text(value: str) -> str:
    """As clean_text; a value with bytes that could not be decoded stays, to be found out where it is used."""
    return value if _has_undecoded(value) else clean_text(value)


def _has_undecoded(text: str) -> bool:
    return not text.isascii() and reading.UNDECODED.search(text) is not None


# 2.1 escapes a semicolon only, and has the backslash for itself; some of its writers escape commas too. Old versions of
# Apple's address book escape colons in 3.0.
_ESCAPED_21 = re.compile(r"\\([;,])")
_ESCAPED = re.compile(r"\\([\\;,:nN])")
_SEPARATOR_21 = re.compile(r"\\[;,]|;")
_SEPARATOR = re.compile(r"\\.|;", re.DOTALL)


def _unescaped(value: str, is_21: bool) -> str:
    if "\\" not in value:
        return value
    return (_ESCAPED_21 if is_21 else _ESCAPED).sub(lambda found: "\n" if found[1] in "nN" else found[1], value)


def _components(value: str, is_21: bool) -> list[str]:
    """The parts of a structured value: between the semicolons that are not escaped."""
    if "\\" not in value:
        return value.split(";")
    parts, start = [], 0
    for found in (_SEPARATOR_21 if is_21 else _SEPARATOR).finditer(value):
        if found[0] == ";":
            parts.append(value[start : found.start()])
            start = found.end()
    return [_unescaped(part, is_21) for part in (*parts, value[start:])]
