"""Opens files to import: plain or gzip, UTF-8 or another encoding, by path or from standard input; read once."""

import gzip
import hashlib
import io
import sys
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import chain
from typing import BinaryIO, cast

from phonebook.imports.readers.base import UnreadableFile

# A block list may be a single line of JSON; no text file has longer lines.
MAX_LINE = 64 * 2**20
_BUFFER = 2**20
_GZIP = b"\x1f\x8b"
_BYTE_ORDER_MARKS = {b"\xef\xbb\xbf": "utf-8-sig", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}


class _HashingStream(io.RawIOBase):
    """Hashes the bytes that are read, at most `max_bytes`. Raises UnreadableFile."""

    def __init__(self, raw: BinaryIO, max_bytes: int) -> None:
        self._raw = raw
        self._max_bytes = self._left = max_bytes
        self.digest = hashlib.sha256()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        count = cast(int, self._raw.readinto(buffer))  # type: ignore[attr-defined]
        self.digest.update(buffer[:count])
        self._left -= count
        if self._left < 0:
            raise UnreadableFile(f"the file is larger than {self._max_bytes >> 20:,} MB, unpacked")
        return count


class TextFile:
    """`name`: as the operator typed it. `lines` can be read once; a byte that could not be decoded is a lone surrogate
    (PEP 383)."""

    def __init__(self, name: str, content: _HashingStream, lines: Iterator[str]) -> None:
        self.name = name
        self._content = content
        self.first_line, self.lines = _first_line(lines)

    @property
    def digest(self) -> bytes:
        """SHA-256 of the uncompressed content read so far."""
        return self._content.digest.digest()


@contextmanager
def open_text(path: str, *, encoding: str | None = None, max_bytes: int = sys.maxsize) -> Iterator[TextFile]:
    """Open `path` (`-`: standard input). The first bytes show gzip and byte order marks; otherwise the encoding is
    `encoding`, or UTF-8. `max_bytes`: of the uncompressed content.

    Raises OSError and UnreadableFile, also while the lines are read. An UnreadableFile that is raised while the file is
    open gets its name.
    """
    name = "<stdin>" if path == "-" else path
    try:
        with ExitStack() as stack:
            if path == "-" and sys.stdin is None:
                raise UnreadableFile("standard input is closed")
            raw = cast(io.BufferedReader, sys.stdin.buffer) if path == "-" else stack.enter_context(open(path, "rb"))
            with _decoding_errors():
                packed = raw.peek(2).startswith(_GZIP)
                content = _HashingStream(cast(BinaryIO, gzip.GzipFile(fileobj=raw)) if packed else raw, max_bytes)
                stream = io.BufferedReader(content, _BUFFER)
                start = stream.peek(3)
                marked = next((known for mark, known in _BYTE_ORDER_MARKS.items() if start.startswith(mark)), None)
                # Universal newlines; UTF-16 and UTF-32 cannot represent undecoded bytes.
                chosen = marked or encoding or "utf-8"
                errors = "strict" if "16" in chosen or "32" in chosen else "surrogateescape"
                file = TextFile(name, content, _lines(io.TextIOWrapper(stream, encoding=chosen, errors=errors)))
            yield file
    except UnreadableFile as error:
        raise UnreadableFile(f"{name}: {error}") from error


def _lines(text: io.TextIOWrapper) -> Iterator[str]:
    with _decoding_errors():
        for line in iter(partial(text.readline, MAX_LINE), ""):
            if len(line) >= MAX_LINE:
                raise UnreadableFile(f"a line is longer than {MAX_LINE >> 20} MiB")
            yield line


@contextmanager
def _decoding_errors() -> Iterator[None]:
    try:
        yield
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise UnreadableFile("the gzip file is damaged or truncated") from error
    except UnicodeError as error:
        raise UnreadableFile("the text is damaged or truncated") from error
    except LookupError as error:  # of an encoding
        raise UnreadableFile(str(error).partition(";")[0]) from error


def _first_line(lines: Iterator[str]) -> tuple[str, Iterator[str]]:
    """The first line that is not blank, and all lines."""
    read: list[str] = []
    for line in lines:
        read.append(line)
        if line.strip():
            break
    return (read[-1].strip() if read else ""), chain(read, lines)
