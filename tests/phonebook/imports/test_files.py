"""Opening files to import: plain, gzip, from a pipe, and in several encodings."""

import gzip
import io
import os
import random
import threading
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from encodings.aliases import aliases
from pathlib import Path

import pytest

from core.text import encoding_named, storable
from phonebook.imports import files
from phonebook.imports.readers.base import UNDECODED, UnreadableFile

TEXT = "number,name\n12125550142,José\n"


def read(path: Path, encoding: str | None = None) -> str:
    with files.open_text(str(path), encoding=encoding) as file:
        return "".join(file.lines)


@pytest.mark.parametrize(
    "raw",
    [
        TEXT.encode(),
        b"\xef\xbb\xbf" + TEXT.encode(),
        TEXT.encode("utf-16"),
        b"\xfe\xff" + TEXT.encode("utf-16-be"),
        TEXT.replace("\n", "\r\n").encode(),
        TEXT.replace("\n", "\r").encode(),
        gzip.compress(TEXT.encode()),
        gzip.compress(b"\xef\xbb\xbf" + TEXT.encode()),
        gzip.compress(TEXT[:12].encode()) + gzip.compress(TEXT[12:].encode()),
    ],
    ids=["utf-8", "mark", "utf-16", "utf-16-be", "crlf", "cr", "gzip", "gzip with mark", "two gzips"],
)
def test_text_is_the_same_in_every_encoding(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "named without an ending"
    path.write_bytes(raw)
    assert read(path) == TEXT


def test_blank_lines_before_the_header_are_not_kept() -> None:
    content = io.BytesIO(b" \n" * 300_000 + TEXT.encode())
    tracemalloc.start()
    try:
        with files.open_text("blank.csv", content=content) as file:
            assert file.begin[0].strip() == "number,name"
            lines = sum(1 for _ in file.lines)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert lines == 300_002
    assert peak < 2**20
    with files.open_text("blank.csv", content=io.BytesIO(b" \n" * 3)) as file:
        assert (file.begin, list(file.lines)) == ([], [])


def test_bytes_that_are_not_utf8_are_read_with_an_encoding(tmp_path: Path) -> None:
    path = tmp_path / "outlook.csv"
    path.write_bytes(TEXT.encode("cp1252"))
    assert UNDECODED.search(read(path))
    assert read(path, "cp1252") == TEXT


@pytest.mark.parametrize(
    ("encoding", "name"),
    [
        ("cp932", "表示構能"),  # the second byte of each of these is a backslash
        ("Shift_JIS", "山田太郎"),
        ("ISO-2022-JP", "山田太郎"),
        ("euc-jp", "山田太郎"),
        ("gb18030", "李雷𠮷"),
        ("GBK", "李雷"),
        ("big5", "許功蓋"),
        ("EUC-KR", "김철수"),
        ("cp949", "펲시"),
        ("windows-1251", "Анна"),
        ("koi8-u", "Ґанна"),
        ("macintosh", "José"),
        ("UTF-16LE", "José"),
        ("cp65001", "José"),
    ],
)
def test_exports_of_other_systems_are_read(tmp_path: Path, encoding: str, name: str) -> None:
    path = tmp_path / "outlook.csv"
    text = f"number,name\n12125550142,{name}\n"
    path.write_bytes(text.encode("utf-8" if encoding == "cp65001" else encoding))
    assert read(path, encoding) == text


@pytest.mark.parametrize(
    "encoding",
    [
        *("utf-7", "unicode-1-1-utf-7", "unicode_escape", "raw_unicode_escape", "idna", "punycode", "rot13", "hex"),
        *("undefined", "mbcs", "utf-32", "zlib", "klingon", "é", "\0"),
    ],
)
def test_encodings_that_no_export_has_are_refused(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "contacts.csv"
    path.write_text(TEXT)
    with pytest.raises(UnreadableFile, match="unknown encoding"):
        read(path, encoding)


@pytest.mark.parametrize("codec", sorted(filter(encoding_named, {*aliases.values(), "utf_8_sig", "koi8_u"})))
def test_whatever_the_bytes_are_lines_are_unicode(tmp_path: Path, codec: str) -> None:
    """But for the mark of an undecoded byte, whose record is rejected."""
    path = tmp_path / "noise"
    path.write_bytes(bytes(range(256)) * 4 + random.Random(codec).randbytes(50_000))
    with suppress(UnreadableFile), files.open_text(str(path), encoding=codec) as file:
        for line in file.lines:
            assert storable(UNDECODED.sub("", line)) == UNDECODED.sub("", line)


GZIP = gzip.compress((TEXT * 1000).encode())
NOISE = gzip.compress(os.urandom(10_000))


@pytest.mark.parametrize(
    "raw",
    [
        b"\x1f\x8b",
        GZIP[:15],
        GZIP[:-5],
        NOISE[:5000] + bytes([NOISE[5000] ^ 0xFF]) + NOISE[5001:],
        TEXT.encode("utf-16")[:-1],
    ],
    ids=["magic number", "start of a gzip", "end is missing", "two bytes", "utf-16"],
)
def test_damaged_file_is_refused(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "contacts.csv.gz"
    path.write_bytes(raw)
    with pytest.raises(UnreadableFile, match="damaged"):
        read(path)


def test_endless_line_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MAX_LINE", 1000)
    path = tmp_path / "image.iso"
    path.write_bytes(b"x" * 5000)
    with pytest.raises(UnreadableFile, match="longer than"):
        read(path)


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
@pytest.mark.parametrize("text", ["é\r\n" * 2**18, "number,name\n" * 2**17], ids=["2 bytes a character", "ascii"])
def test_size_limit_counts_unpacked_bytes(tmp_path: Path, pack: Callable[[bytes], bytes], text: str) -> None:
    path = tmp_path / "complaints.csv"
    raw = text.encode()
    path.write_bytes(pack(raw))
    with files.open_text(str(path), max_size=len(raw)) as file:
        assert sum(1 for _ in file.lines) == text.count("\n")
    with (
        pytest.raises(UnreadableFile, match=r"larger than [01] MB, unpacked"),
        files.open_text(str(path), max_size=len(raw) - 1) as file,
    ):
        list(file.lines)


@pytest.mark.parametrize(("blank", "first"), [("\n  \n", "number,name"), ("", "number,name"), ("", "")])
def test_first_lines_are_known_and_read_again(tmp_path: Path, blank: str, first: str) -> None:
    path = tmp_path / "contacts.csv"
    text = blank + TEXT if first else ""
    path.write_text(text, encoding="utf-8")
    with files.open_text(str(path)) as file:
        assert ("".join(file.begin[:1]).strip(), "".join(file.lines)) == (first, text.replace("  ", ""))


def test_standard_input_is_streamed(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    raw = (TEXT * 50_000).encode()

    def feed() -> None:
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(gzip.compress(raw))

    feeder = threading.Thread(target=feed)
    feeder.start()
    with io.TextIOWrapper(os.fdopen(reading, "rb")) as piped:
        monkeypatch.setattr("sys.stdin", piped)
        with files.open_text("-") as file:
            assert file.name == "<stdin>"
            assert sum(1 for _ in file.lines) == 100_000
    feeder.join()
