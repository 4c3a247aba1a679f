"""No process maps a file into memory that others can truncate, or that a full disk leaves without blocks: SIGBUS would
kill it."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import requests

from tests.api import NUMBER
from tests.load import create_tokens
from tests.service import Service

pytestmark = pytest.mark.slow

#: The index of SQLite's write-ahead log, which is part of the database; and uvloop's io_uring, which is no file.
KNOWN = re.compile(r"/callerid\.sqlite3-shm$|^anon_inode:\[io_uring\]$")


def mapped_for_writing(pid: int) -> list[str]:
    """The files that the process has mapped shared and writable, deleted ones included."""
    lines = Path(f"/proc/{pid}/maps").read_text(encoding="utf-8").splitlines()
    fields = [line.split(maxsplit=5) for line in lines]
    return [each[5] for each in fields if len(each) == 6 and each[1].startswith("rw") and each[1].endswith("s")]


def test_only_the_index_of_sqlite_is_mapped(serve: Callable[..., Service]) -> None:
    service = serve()
    (key,) = create_tokens(service, 1)
    body = {"api_key": key, "query": NUMBER}
    assert requests.post(f"{service.url}/callerid/search", json=body, timeout=30).status_code == 200
    assert service.process
    found = mapped_for_writing(service.process.pid)
    assert any(name.endswith("-shm") for name in found) == (not service.env.get("DATABASE_URL"))
    assert [name for name in found if not KNOWN.search(name)] == []
