"""Opens files to import: plain or gzip, UTF-8 or another encoding, by path or from standard input; read once."""

import gzip
import io
import sys
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import chain, repeat
from typing import Any, cast

from core.text import encoding_named, storable
from phonebook.imports.readers.base import UnreadableFile, begin_of

# A block list may be a single line of JSON; no text file has longer lines.
MAX_LINE = 64 * 2**20
_GZIP = b"\x1f\x8b"
_BYTE_ORDER_MARKS = {b"\xef\xbb\xbf": "utf-8-sig", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}


class _LimitedStream(io.BufferedIOBase):
    """`stream`, without closing it. Raises UnreadableFile when more than `max_size` bytes have been read."""

    def __init__(self, stream: io.BufferedReader | gzip.GzipFile, max_size: int) -> None:
        self._stream, self._max_size, self._left = stream, max_size, max_size

    def readable(self) -> bool:
        return True

    def read1(self, size: int = -1) -> bytes:
        data = self._stream.read1(size)
        self._left -= len(data)
        if self._left < 0:
            raise UnreadableFile(f"the file is larger than {self._max_size >> 20:,} MB, unpacked")
        return data


class TextFile:
    """`name`: as the operator typed it, without what is no Unicode. `lines` can be read once. They have no NUL, and no
    lone surrogate but U+DC80 to U+DCFF: bytes that could not be decoded (PEP 383). `begin`: the first of
    them, from one that is not blank (base.begin_of)."""

    def __init__(self, name: str, text: io.TextIOWrapper) -> None:
        self.name = name
        #: As the file has it, for a file that is made of this one.
        self.byte_order_mark = "\ufeff" if text.encoding in _BYTE_ORDER_MARKS.values() else ""
        #: A hash of the lines read so far, for this process.
        self.digest = 0
        lines = self._read(text)
        blank, first = next(((n, line) for n, line in enumerate(lines) if line.strip()), (0, ""))
        self.begin = [line for _, line in begin_of(chain(filter(None, [first]), lines))]
        self.lines = chain(repeat("\n", blank), self.begin, lines)

    def _read(self, text: io.TextIOWrapper) -> Iterator[str]:
        with _decoding_errors():
            for line in iter(partial(text.readline, MAX_LINE), ""):
                if len(line) >= MAX_LINE:
                    raise UnreadableFile(f"a line is longer than {MAX_LINE >> 20} MiB")
                self.digest = hash((self.digest, line))
                yield line.replace("\0", "")


@contextmanager
def open_text(
    path: str, *, encoding: str | None = None, max_size: int = sys.maxsize, content: io.BytesIO | None = None
) -> Iterator[TextFile]:
    """Open `path` (`-`: standard input). The first bytes show gzip and byte order marks; otherwise the encoding is
    `encoding`, one of core.text.encoding_named, or UTF-8. `max_size`: in bytes, unpacked. `content`: is read instead,
    and `path` is only its name.

    Raises OSError and UnreadableFile, also while the lines are read. An UnreadableFile that is raised while the file is
    open gets its name.
    """
    name = "<stdin>" if path == "-" else storable(path)
    try:
        with ExitStack() as stack:
            raw: Any
            if content is not None:
                raw = io.BufferedReader(cast(io.RawIOBase, content))
                stack.callback(raw.detach)  # or it would close `content`
            elif path != "-":
                raw = stack.enter_context(open(path, "rb"))
            elif sys.stdin is None:
                raise UnreadableFile("standard input is closed")
            else:
                raw = sys.stdin.buffer
            with _decoding_errors():
                packed = raw.peek(2).startswith(_GZIP)
                stream = gzip.GzipFile(fileobj=raw) if packed else raw
                start = stream.peek(3)
                marked = next((known for mark, known in _BYTE_ORDER_MARKS.items() if start.startswith(mark)), None)
                chosen = marked or encoding_named(encoding or "utf-8")
                if chosen is None:
                    raise UnreadableFile(f"unknown encoding: {encoding}")
                # Universal newlines; UTF-16 cannot represent undecoded bytes.
                errors = "strict" if chosen.startswith(("utf-16", "utf_16")) else "surrogateescape"
                limited: Any = _LimitedStream(stream, max_size)
                text = io.TextIOWrapper(limited, encoding=chosen, errors=errors)
                stack.callback(text.detach)  # standard input stays open
                file = TextFile(name, text)
            yield file
    except UnreadableFile as error:
        raise UnreadableFile(f"{name}: {error}") from error


@contextmanager
def _decoding_errors() -> Iterator[None]:
    try:
        yield
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise UnreadableFile("the gzip file is damaged or truncated") from error
    except UnicodeError as error:
        raise UnreadableFile("the text is damaged or truncated") from error
