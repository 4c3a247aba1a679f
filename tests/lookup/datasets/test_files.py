"""Opening files to import: plain, gzip, from a pipe, in whatever encoding says so itself."""

import gzip
import io
import os
import threading
from pathlib import Path

import pytest

from lookup.datasets import files
from lookup.datasets.reading import UNDECODED, Unreadable

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
def test_the_text_is_the_same_however_it_is_stored(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "named without an ending"
    path.write_bytes(raw)
    assert read(path) == TEXT


def test_bytes_that_are_no_utf8_are_kept_apart_and_an_encoding_reads_them(tmp_path: Path) -> None:
    path = tmp_path / "outlook.csv"
    path.write_bytes(TEXT.encode("cp1252"))
    assert UNDECODED.search(read(path))
    assert read(path, "cp1252") == TEXT


@pytest.mark.parametrize("keep", [1, 15, -1])
def test_a_gzip_that_is_cut_short_is_no_half_a_file(tmp_path: Path, keep: int) -> None:
    path = tmp_path / "contacts.csv.gz"
    path.write_bytes(gzip.compress((TEXT * 1000).encode())[:keep] if keep > 1 else b"\x1f\x8b")
    if keep == -1:
        path.write_bytes(gzip.compress((TEXT * 1000).encode())[:-5])
    with pytest.raises(Unreadable, match="damaged"):
        read(path)


def test_a_gzip_with_another_body_is_refused(tmp_path: Path) -> None:
    raw = bytearray(gzip.compress(os.urandom(10_000)))
    raw[5000] ^= 0xFF
    path = tmp_path / "contacts.csv.gz"
    path.write_bytes(raw)
    with pytest.raises(Unreadable, match="damaged"):
        read(path)


def test_utf_16_cut_short_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "contacts.csv"
    path.write_bytes(TEXT.encode("utf-16")[:-1])
    with pytest.raises(Unreadable, match="damaged"):
        read(path)


def test_a_file_that_is_one_endless_line_is_not_read_into_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MAX_LINE", 1000)
    path = tmp_path / "image.iso"
    path.write_bytes(b"x" * 5000)
    with pytest.raises(Unreadable, match="longer than"):
        read(path)


def test_the_first_line_is_known_and_read_again(tmp_path: Path) -> None:
    path = tmp_path / "contacts.csv"
    path.write_text("\n  \n" + TEXT, encoding="utf-8")
    with files.open_text(str(path)) as file:
        assert file.first_line == "number,name"
        assert "".join(file.lines) == "\n  \n" + TEXT


def test_a_file_of_blank_lines_is_not_kept_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "bomb.csv.gz"
    path.write_bytes(gzip.compress(b"\n" * 10_000_000))
    with pytest.raises(Unreadable, match="lines are blank"):
        read(path)


def test_an_empty_file_has_no_first_line(tmp_path: Path) -> None:
    path = tmp_path / "contacts.csv"
    path.write_bytes(b"")
    with files.open_text(str(path)) as file:
        assert (file.first_line, list(file.lines), file.size) == ("", [], 0)


def test_size_and_position_are_those_of_the_file_as_it_is_stored(tmp_path: Path) -> None:
    path = tmp_path / "contacts.csv.gz"
    path.write_bytes(gzip.compress(TEXT.encode()))
    with files.open_text(str(path)) as file:
        list(file.lines)
        assert file.size == file.position == path.stat().st_size


def test_files_that_hold_the_same_have_the_same_digest(tmp_path: Path) -> None:
    digests = []
    for name, text in (("a", TEXT), ("b", TEXT), ("c", TEXT + "\n")):
        (tmp_path / name).write_text(text, encoding="utf-8")
        with files.open_text(str(tmp_path / name)) as file:
            list(file.lines)
            digests.append(file.digest)
    assert digests[0] == digests[1] != digests[2]


@pytest.mark.parametrize("packed", [False, True])
def test_standard_input_is_read_as_it_comes(monkeypatch: pytest.MonkeyPatch, packed: bool) -> None:
    reading, writing = os.pipe()
    raw = (TEXT * 50_000).encode()

    def feed() -> None:
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(gzip.compress(raw) if packed else raw)

    feeder = threading.Thread(target=feed)
    feeder.start()
    with io.TextIOWrapper(os.fdopen(reading, "rb")) as piped:
        monkeypatch.setattr("sys.stdin", piped)
        with files.open_text("-") as file:
            assert (file.name, file.size) == ("<stdin>", None)
            assert sum(1 for _ in file.lines) == 100_000
    feeder.join()
