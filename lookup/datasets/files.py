"""Files to import: plain or gzip, UTF-8 or another encoding, by path or from standard input; read once."""

import gzip
import hashlib
import io
import os
import stat
import sys
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import BinaryIO, cast

from lookup.datasets.reading import Unreadable, naming

# A whole list of numbers may stand in one line of JSON; no text file has a longer one.
MAX_LINE = 64 * 2**20
_BUFFER = 2**20
_MOST_BLANK_LINES = 1000
_GZIP = b"\x1f\x8b"
_BYTE_ORDER_MARKS = {b"\xef\xbb\xbf": "utf-8-sig", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}


class _Counted(io.RawIOBase):
    """Knows how many bytes went through, and their digest."""

    def __init__(self, raw: BinaryIO) -> None:
        self._raw = raw
        self.position = 0
        self.digest = hashlib.sha256()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        count = cast(int, self._raw.readinto(buffer))  # type: ignore[attr-defined]
        self.digest.update(buffer[:count])
        self.position += count
        return count


class TextFile:
    """`name`: as the operator wrote it. `lines` can be read once; a byte that could not be decoded is a lone surrogate
    (PEP 383). `size`: bytes, None where it cannot be known; `position`: how many of them have been read."""

    def __init__(self, name: str, size: int | None, stored: _Counted, content: _Counted, lines: Iterator[str]) -> None:
        self.name = name
        self.size = size
        self._stored = stored
        self._content = content
        self.first_line, self.lines = _first_line(lines)

    @property
    def position(self) -> int:
        return self._stored.position

    @property
    def digest(self) -> bytes:
        """Of what has been read so far, unpacked."""
        return self._content.digest.digest()


@contextmanager
def open_text(path: str, *, encoding: str | None = None) -> Iterator[TextFile]:
    """Open `path` (`-`: standard input); gzip is told by its first bytes, and so is an encoding that has a byte order
    mark, else it is `encoding`, or UTF-8.

    Raises OSError, and Unreadable, also while its lines are read.
    """
    name = "<stdin>" if path == "-" else path
    with ExitStack() as stack:
        if path == "-" and sys.stdin is None:
            raise Unreadable("standard input is closed")
        raw = sys.stdin.buffer if path == "-" else stack.enter_context(Path(path).open("rb"))
        stored = content = _Counted(cast(BinaryIO, raw))
        stream = io.BufferedReader(stored, _BUFFER)
        with naming(name), _faults():
            if stream.peek(2).startswith(_GZIP):
                content = _Counted(cast(BinaryIO, gzip.GzipFile(fileobj=stream)))
                stream = io.BufferedReader(content, _BUFFER)
            start = stream.peek(3)
            marked = next((known for mark, known in _BYTE_ORDER_MARKS.items() if start.startswith(mark)), None)
            # Line ends of every system; UTF-16 has no bytes to carry over.
            chosen = marked or encoding or "utf-8"
            errors = "strict" if "16" in chosen or "32" in chosen else "surrogateescape"
            text = io.TextIOWrapper(stream, encoding=chosen, errors=errors)
            file = TextFile(name, _size(raw), stored, content, _lines(text))
        yield file


def _lines(text: io.TextIOWrapper) -> Iterator[str]:
    with _faults():
        for line in iter(partial(text.readline, MAX_LINE), ""):
            if len(line) >= MAX_LINE:
                raise Unreadable(f"a line is longer than {MAX_LINE >> 20} MiB")
            yield line


@contextmanager
def _faults() -> Iterator[None]:
    try:
        yield
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise Unreadable("the gzip file is damaged or cut short") from error
    except UnicodeError as error:
        raise Unreadable("the text is damaged or cut short") from error


def _first_line(lines: Iterator[str]) -> tuple[str, Iterator[str]]:
    """The first line that is not blank, and all lines again."""
    read: list[str] = []
    for line in lines:
        read.append(line)
        if line.strip():
            break
        if len(read) > _MOST_BLANK_LINES:
            raise Unreadable(f"the first {_MOST_BLANK_LINES:,} lines are blank")
    return (read[-1].strip() if read else ""), chain(read, lines)


def _size(raw: object) -> int | None:
    try:
        status = os.fstat(cast(BinaryIO, raw).fileno())
    except (OSError, AttributeError):
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None
