"""Reader of the phone book that a FRITZ!Box exports: XML with a `contact` for each person or company.

<phonebooks><phonebook name="…"><contact><person><realName>…</realName></person>
<telephony><number type="home">…</number></telephony></contact></phonebook></phonebooks>
"""

import re
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any
from xml.parsers import expat

from core.text import clean_text, encoding_named
from phonebook.imports.readers import base
from phonebook.imports.readers.base import ContactRow, Rejected, UnreadableFile

MAX_NUMBERS = 1_000
_MAX_TEXT = 1_000
_ENCODING = re.compile("encoding=[\"']([A-Za-z0-9._-]{1,40})[\"']")
#: Control characters, which XML 1.0 cannot hold, and references to them.
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]|&#(?:[0-9]|[12][0-9]|3[01]|x1?[0-9A-Fa-f]);")


def recognizes(begin: Sequence[str]) -> int:
    text = "".join(begin)
    return int(text.lstrip(base.BLANK).startswith("<") and ("<phonebook>" in text or "<phonebook " in text))


def read(lines: Iterator[str], *, region: str | None) -> Iterator[ContactRow | Rejected]:
    """`line` is where a number's element begins. Raises UnreadableFile."""
    number, first = next(base.begin_of(lines), (1, ""))
    declared = _ENCODING.search(first)
    encoding = (encoding_named(declared[1]) if declared else None) or "utf-8"
    contacts = _Contacts(number - 1)
    for line in chain([first.lstrip(base.BLANK)], lines, [None]):
        contacts.feed(None if line is None else _cleaned(line, encoding))
        found, contacts.found = contacts.found, []
        for at, name, entries in found:
            yield from base.contact_rows(entries, region, line=at, label=base.label_of(name))


def _cleaned(line: str, encoding: str) -> str:
    if base.UNDECODED.search(line):
        line = line.encode("utf-8", "surrogateescape").decode(encoding, "replace")
    return _CONTROL.sub(" ", line)


class _Contacts:
    """`found`: of each contact that is complete, its line and name, and the line of each number, its text, the name and
    no location."""

    def __init__(self, lines_before: int) -> None:
        self.found: list[tuple[int, str, list[tuple[int, str, str, str]]]] = []
        self._lines_before = lines_before
        self._path: list[str] = []
        self._name, self._text, self._line, self._contact_line = "", "", 0, 0
        self._numbers: list[tuple[int, str]] = []
        self._parser = expat.ParserCreate()
        self._parser.StartElementHandler, self._parser.EndElementHandler = self._begin, self._end
        self._parser.CharacterDataHandler, self._parser.StartDoctypeDeclHandler = self._read, self._refuse

    def feed(self, line: str | None) -> None:
        """Parse a line; None ends the file. Raises UnreadableFile."""
        try:
            self._parser.Parse(line or "", line is None)
        except expat.ExpatError as error:
            raise UnreadableFile(f"line {self._lines_before + error.lineno} is not XML, or incomplete") from None

    def _begin(self, name: str, _attributes: dict[str, str]) -> None:
        self._path.append(name)
        self._text, self._line = "", self._lines_before + self._parser.CurrentLineNumber
        if name == "contact":
            self._name, self._numbers, self._contact_line = "", [], self._line

    def _end(self, name: str) -> None:
        within = self._path[-2:-1]
        self._path.pop()
        if (within, name) == (["person"], "realName"):
            self._name = self._text
        elif (within, name) == (["telephony"], "number") and self._text.strip():
            if len(self._numbers) == MAX_NUMBERS:
                raise UnreadableFile(f"a contact has more than {MAX_NUMBERS:,} numbers")
            self._numbers.append((self._line, self._text))
        elif name == "contact":
            # What could not be decoded is rejected.
            full_name = "\udcff" if "\ufffd" in self._name else clean_text(self._name)
            entries = [(line, text, full_name, "") for line, text in self._numbers]
            self.found.append((self._contact_line, full_name, entries))

    def _read(self, text: str) -> None:
        self._text = (self._text + text)[:_MAX_TEXT]

    def _refuse(self, *_declaration: Any) -> None:
        raise UnreadableFile("the XML has a document type")
