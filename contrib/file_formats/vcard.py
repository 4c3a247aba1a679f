"""Reader of vCard files: 2.1 (versit, 1996), 3.0 (RFC 2426) and 4.0 (RFC 6350), also mixed in one file.

A card yields a row for each of its telephone numbers, all with the card's name and location; a card without a number,
such as a group, is rejected. One card is held in memory at a time, with those whose AGENT it is, and only what their
rows need.
"""

import re
from binascii import a2b_qp
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import unquote

from core.text import clean_text, encoding_named
from phonebook.imports.readers import base
from phonebook.imports.readers.base import ContactRow, Rejected

#: Characters of an unfolded property, with its name and parameters. Pictures are longer, and not used.
MAX_PROPERTY = 16 * 1024
#: Cards around a card, which are in memory too.
MAX_DEPTH = 8

NO_END = "card without END:VCARD"
OUTSIDE = "outside a card"
NO_PROPERTY = "not a property"
TOO_LONG = "property longer than 16 KiB"

# Files concatenated with cat run into each other where the first has no final line end, or the second a BOM.
_BORDER = re.compile(
    r"[\s\ufeff]*+(END\s*+:\s*+VCARD[\s\ufeff]*+)?((?:AGENT\s*+:\s*+)?BEGIN\s*+:\s*+VCARD\s*+)?",
    re.ASCII | re.IGNORECASE,
)
_NAME_MARKS = dict.fromkeys(map(ord, "-._"))
# Up to the first colon outside quotation marks.
_HEAD = re.compile(r'[^":]*+(?:"[^"]*+"[^":]*+)*+:')
_PARAMETER = re.compile(r';((?:[^";]|"[^"]*+")*+)')
_FOLD = re.compile(r"\n[ \t]")
#: Best first, as in the readers of tables.
_NAMES = ("FN", "N", "ORG", "NICKNAME")
_USED = frozenset({*_NAMES, "ADR", "TEL"})
#: Their values are text, in which some exporters leave line breaks as they are.
_TEXTS = frozenset({*_NAMES, "ADR", "LABEL", "NOTE", "ROLE", "TITLE"})
_PROPERTIES = _USED | _TEXTS | {"BDAY", "CATEGORIES", "EMAIL", "PHOTO", "REV", "UID", "URL", "VERSION"}
#: Octets of a line that was folded without a space: 75 (RFC 6350), give or take a few.
_FOLDED = range(72, 77)


def recognizes(begin: Sequence[str]) -> int:
    return next((n for n, line in enumerate(begin, 1) if _border(line.rstrip("\r\n")) == (False, True)), 0)


def read(lines: Iterator[str], *, region: str | None) -> Iterator[ContactRow | Rejected]:
    """`line` is where a TEL begins, counted from 1. Bytes that are not UTF-8 are U+DC80 to U+DCFF (PEP 383): a
    property's CHARSET may still decode them."""
    card: _Card | None = None
    #: The cards around this one, which is the AGENT of the last of them (2.1).
    around: list[_Card] = []
    line: _Line | None = None
    outside, cards = False, 0
    for line in _unfold(lines):
        ends_card, begins_card = line.border
        if ends_card and card is not None:
            yield from card.rows()
            card = around.pop() if around else None
            if not begins_card:
                continue
        if begins_card:
            if card is not None and len(around) < MAX_DEPTH and card.has_agent(line):
                around.append(card)
            else:
                for unended in filter(None, (card, *reversed(around))):
                    yield from unended.rows(has_end=False)
                around.clear()
            cards += 1
            card, outside = _Card(cards, line.number, region), False
        elif card is not None:
            card.add(line)
        elif not outside:
            yield Rejected(line.number, OUTSIDE)
            outside = True
    if card is not None and line is not None:
        yield from card.rows(has_end=False, without_last_line=not line.is_complete)
        for unended in reversed(around):
            yield from unended.rows(has_end=False)


def _unfold(lines: Iterator[str]) -> "Iterator[_Line]":
    """The lines that are not blank, each with its continuations. A card may be indented as a whole."""
    line: _Line | None = None
    indent = ""
    for number, ended in enumerate(lines, start=1):
        text = ended.rstrip("\r\n")
        if text[:1] in (" ", "\t") and (line is None or line.border[0]) and _border(text)[1]:
            indent = text[: len(text) - len(text.lstrip(" \t"))]
        text = text.removeprefix(indent)
        if line is not None:
            line.is_complete = ended.endswith("\n")
            if line.append(text):
                continue
            yield line
        line = _Line(number, text) if text and not text.isspace() else None
        if line is not None:
            line.is_complete = ended.endswith("\n")
            indent = "" if line.border[0] else indent
    if line is not None:
        yield line


class _Line:
    """A content line, of which at most MAX_PROPERTY characters are kept."""

    def __init__(self, number: int, text: str) -> None:
        self.number = number
        self.border = _border(text)
        #: Whether it begins a card that is the value of AGENT.
        self.is_agent = self.border[1] and "AGENT" in text.upper()
        #: Whether its last line has an end: the last one of a file may be cut off.
        self.is_complete = True
        #: Each fold is still a line feed and a space or tab: whether the space is text depends on the version.
        self.text = text[:MAX_PROPERTY]
        self.too_long = len(text) > MAX_PROPERTY
        self._end = text

    def append(self, text: str) -> bool:
        """Append the next line of the file, if it continues this one; returns whether it does."""
        if any(self.border):
            return False
        is_fold = text[:1] in (" ", "\t")
        ends_with_equals = self._end.rstrip().endswith("=")
        parts = self.split() if ends_with_equals or not (is_fold or ":" in text) else None
        head = parts and parts[0]
        soft_break = ends_with_equals and head is not None and head.quoted_printable
        # A value that ends with a soft break does not contain the next card, or property.
        is_quoted = soft_break and not any(_border(text)) and not self._is_followed_by(text)
        # Old exports do not indent the lines of a picture.
        is_picture = head is not None and head.base64 and text != "" and ":" not in text
        if not (is_fold or is_quoted or is_picture):
            return False
        if not self.too_long:
            joined = self.text.rstrip()[:-1] + text if soft_break else f"{self.text}\n{text}"
            self.text = joined[:MAX_PROPERTY]
            self.too_long = len(joined) > MAX_PROPERTY
        self._end = text
        return True

    def _is_followed_by(self, text: str) -> bool:
        """Whether `text` is the next property, although this one ends with a soft break. After a line break that is
        encoded, it is rather a line of a note."""
        is_property = ":" in text and _first_word(text) in _PROPERTIES
        return is_property and not self.text.rstrip().upper().endswith(("=0A=", "=0D="))

    def add_text(self, line: "_Line") -> bool:
        """Add a line that is no property, if this one is text; returns whether it is."""
        parts = self.split()
        if parts is None or parts[0].name not in _TEXTS or _first_word(line.text) in _PROPERTIES:
            return False
        is_folded = len(self._end) <= _FOLDED[-1] and len(self._end.encode("utf-8", "surrogateescape")) in _FOLDED
        glue = "" if is_folded or parts[0].quoted_printable else " "
        joined = f"{self.text}{glue}{line.text}"
        self.text, self.too_long = joined[:MAX_PROPERTY], self.too_long or len(joined) > MAX_PROPERTY
        self._end = line._end
        return True

    def split(self) -> "tuple[_Head, str] | None":
        """The head and the raw value; None if the line is not a property."""
        match = _HEAD.match(self.text)
        value_at = match.end() if match else self.text.find(":") + 1  # the latter after an unclosed quotation mark
        head = _parse_head(self.text[: value_at - 1]) if value_at else None
        return (head, self.text[value_at:]) if head else None


def _first_word(text: str) -> str:
    return text.partition(":")[0].partition(";")[0]


def _border(text: str) -> tuple[bool, bool]:
    """Whether the line ends a card, and whether it begins one."""
    border = _BORDER.fullmatch(text)
    return (border[1] is not None, border[2] is not None) if border else (False, False)


@dataclass(frozen=True, slots=True)
class _Head:
    """A property's name, in upper case and without its group, and its parameters. `charset`: one that Python has."""

    name: str
    quoted_printable: bool
    base64: bool
    charset: str | None

    def decode(self, value: str, *, folds_are_text: bool) -> str:
        """The value unfolded and decoded; what cannot be decoded matches base.UNDECODED."""
        value = value.replace("\n", "") if folds_are_text else _FOLD.sub("", value)
        # Undecoded without a CHARSET: a fold may have cut a character in two. ESC: ISO-2022 encodes text as ASCII.
        if self.quoted_printable or _has_undecoded(value) or (self.charset and "\x1b" in value):
            raw = value.encode("utf-8", "surrogateescape")
            if self.quoted_printable:
                raw = a2b_qp(raw)
            value = raw.decode(self.charset or "utf-8", "replace").replace("\ufffd", "\udcff")
        return value


@lru_cache(maxsize=256)
def _parse_head(text: str) -> _Head | None:
    """None if it has no name of a property."""
    text = _FOLD.sub("", text)
    name, semicolon, parameters = text.partition(";")
    if not (name.isascii() and name.strip().translate(_NAME_MARKS).isalnum()):
        return None
    values = defaultdict[str, set[str]](set)
    for parameter in _PARAMETER.findall(semicolon + parameters):
        key, equals, listed = parameter.replace('"', "").upper().partition("=")
        # 2.1 may omit the key: TEL;CELL;QUOTED-PRINTABLE
        for named in (key.strip(),) if equals else ("TYPE", "ENCODING"):
            values[named].update(value.strip() for value in (listed if equals else key).split(","))
    return _Head(
        name=name.rpartition(".")[2].strip().upper(),
        quoted_printable="QUOTED-PRINTABLE" in values["ENCODING"],
        base64=not values["ENCODING"].isdisjoint({"B", "BASE64"}),
        charset=next(filter(None, map(encoding_named, sorted(values["CHARSET"]))), None),
    )


class _Card:
    """The card that is being read."""

    def __init__(self, position: int, line: int, region: str | None) -> None:
        self._position, self._line = position, line
        self._region = region
        self._is_21 = False
        self._names = dict.fromkeys(_NAMES, "")
        self._location = ""
        #: In the order of the file: line and text of a number, or what is wrong with a line.
        self._entries: list[tuple[int, str] | Rejected] = []
        #: The last line and its parts: the next line may belong to it.
        self._last: tuple[_Line, tuple[_Head, str] | None] | None = None

    def add(self, line: _Line) -> None:
        parts = line.split()
        if self._last is not None:
            last = self._last[0]
            if parts is None and last.add_text(line):
                line, parts = last, last.split()
            else:
                self._read(*self._last)
        self._last = line, parts

    def _read(self, line: _Line, parts: tuple[_Head, str] | None) -> None:
        if parts is None:
            self._entries.append(Rejected(line.number, NO_PROPERTY))
            return
        head, value = parts
        if head.name == "VERSION":
            self._is_21 = value.strip() == "2.1"
        if head.name not in _USED:
            return
        if line.too_long:
            self._entries.append(Rejected(line.number, TOO_LONG))
            return
        value = head.decode(value, folds_are_text=self._is_21)
        if head.name == "TEL":
            self._add_number(line.number, value)
        elif head.name == "ADR":
            self._location = self._location or self._parse_address(value)
        else:
            self._names[head.name] = self._names[head.name] or self._parse_name(head.name, value)

    def has_agent(self, begin: _Line) -> bool:
        """Whether the card with this first line is the value of an AGENT, whose line was the last one."""
        parts = self._last[1] if self._last else None
        if not begin.is_agent and not (parts and parts[0].name == "AGENT" and not parts[1].strip()):
            return False
        if self._last is not None:
            self._read(*self._last)
        self._last = None
        return True

    def rows(self, *, has_end: bool = True, without_last_line: bool = False) -> Iterator[ContactRow | Rejected]:
        """The rows of the complete card."""
        if self._last is not None and not without_last_line:
            self._read(*self._last)
        if not has_end:
            self._entries.insert(0, Rejected(self._line, NO_END))
        name = next(filter(None, self._names.values()), "")
        label = base.label_of(name, f"card {self._position}")
        entries = (entry if isinstance(entry, Rejected) else (*entry, name, self._location) for entry in self._entries)
        return base.contact_rows(entries, self._region, line=self._line, label=label)

    def _add_number(self, line: int, value: str) -> None:
        if _has_undecoded(value):
            self._entries.append(Rejected(line, base.NOT_UTF8))
            return
        text = _unescape(value, self._is_21).strip()
        if text[:4].lower() == "tel:":
            text = _number_of_uri(text[4:].strip())
        if text:
            self._entries.append((line, text))

    def _parse_address(self, value: str) -> str:
        parts = (_components(value, self._is_21) + [""] * 7)[3:7]
        locality, area, _postal_code, country = map(_clean, parts)
        return _clean(", ".join(filter(None, dict.fromkeys((locality, area))))) or country

    def _parse_name(self, name: str, value: str) -> str:
        if name in ("FN", "NICKNAME"):
            return _clean(_unescape(value, self._is_21))
        parts = _components(value, self._is_21)
        if name == "ORG":
            return _clean(parts[0])
        family, given, additional, prefix, suffix = (parts + [""] * 5)[:5]
        return _clean(f"{prefix} {given} {additional} {family} {suffix}")


def _number_of_uri(text: str) -> str:
    """The number of a tel URI (RFC 3966), with the prefix of its phone-context."""
    number, *parameters = map(unquote, text.split(";"))
    for parameter in parameters:
        key, _, context = parameter.partition("=")
        if key.strip().lower() == "phone-context" and context.startswith("+") and not number.startswith("+"):
            return context + number
    return number


def _clean(value: str) -> str:
    """As clean_text; a value with undecoded bytes is unchanged, so that its use can be rejected."""
    return value if _has_undecoded(value) else clean_text(value)


def _has_undecoded(text: str) -> bool:
    return not text.isascii() and base.UNDECODED.search(text) is not None


# 2.1 escapes semicolons only, and a backslash is itself; some of its writers escape commas too. Old versions of Apple's
# address book escape colons in 3.0.
_ESCAPED_21 = re.compile(r"\\([;,])")
_ESCAPED = re.compile(r"\\([\\;,:nN])")
# Up to a semicolon that is not escaped.
_COMPONENT_21 = re.compile(r"((?:\\[;,]|[^;])*+)(?:;|\Z)")
_COMPONENT = re.compile(r"((?:\\.|[^;])*+)(?:;|\Z)", re.DOTALL)


def _unescape(value: str, is_21: bool) -> str:
    return (_ESCAPED_21 if is_21 else _ESCAPED).sub(lambda found: "\n" if found[1] in "nN" else found[1], value)


def _components(value: str, is_21: bool) -> list[str]:
    """The parts of a structured value, at least one."""
    return [_unescape(part, is_21) for part in (_COMPONENT_21 if is_21 else _COMPONENT).findall(value)]
