"""How the format of a file is recognized."""

from collections.abc import Iterable, Sequence

from phonebook.imports import Format
from phonebook.imports.readers.base import BLANK, NOT_UTF8, UNDECODED, UnreadableFile


def recognize(formats: Iterable[Format], begin: Sequence[str]) -> Format:
    """The format of a file with these first lines. Raises UnreadableFile."""
    lines = [(line, each) for each in formats if (line := each.reader.recognizes(begin))]
    if lines:
        return min(lines, key=lambda found: found[0])[1]  # a later line may have such words too
    if not "".join(begin).strip(BLANK):
        raise UnreadableFile("the file is empty")
    for start, what in _NOT_IMPORTABLE.items():
        if begin[0].lstrip(BLANK).startswith(start):
            raise UnreadableFile(f"this is {what}")
    if any(map(UNDECODED.search, begin)):
        raise UnreadableFile(f"the file is {NOT_UTF8}")
    known = ", ".join(f"{each.name} ({each.title})" for each in formats)
    raise UnreadableFile(f"its first lines have no known format. Correct them, or choose the format: {known}")


_NOT_IMPORTABLE = {
    "<": "a web page or other XML, perhaps an error message that was saved instead of the file",
    "%PDF": "a PDF",
    "PK\x03\x04": "a zip file or a spreadsheet: unpack it, or save it as CSV",
}
