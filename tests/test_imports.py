"""Imports beside a running server: interrupted, and while searches are answered."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest
import requests

from tests import plugin
from tests.service import Service

FIRST = 12_125_000_000
ROWS = 40_000
TODAY = datetime.now(UTC).date()
YESTERDAY = TODAY - timedelta(days=1)

CONTACTS = ["number,name,location\n", *(f"{FIRST + n},Name {n},Place {n % 9}\n" for n in range(ROWS))]
# Four complaints per number in two days. CORRECTED has four too, but one day of each file together has two or six.
COMPLAINTS, CORRECTED = (
    [
        "number,day,total\n",
        *(f"{FIRST + n // 2},{(YESTERDAY, TODAY)[n % 2]},{totals[n % 2]}\n" for n in range(ROWS)),
    ]
    for totals in ((1, 3), (3, 1))
)
FILES = {"import_contacts": CONTACTS, "import_complaints": COMPLAINTS}
TABLES = {"import_contacts": "phonebook_contact", "import_complaints": "phonebook_complaintday"}

each_import = pytest.mark.parametrize("command", FILES)


class Import:
    """A running `manage.py` that imports from its standard input, or from a file."""

    def __init__(self, service: Service, command: str, path: str = "-") -> None:
        self.process = subprocess.Popen(
            [sys.executable, "manage.py", command, path, "--json"],
            cwd=plugin.ROOT,
            env=service.env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def feed(self, lines: list[str], size: int) -> None:
        """Write the lines repeatedly, `size` characters: more than the pipe and the reader's buffer hold, so that some
        are staged."""
        assert self.process.stdin
        header, *rows = lines
        self.process.stdin.write(header)
        body = "".join(rows)
        while size > 0:
            self.process.stdin.write(body)
            size -= len(body)
        self.process.stdin.flush()

    def end(self, with_signal: signal.Signals) -> str:
        """Returns its stderr."""
        self.process.send_signal(with_signal)
        return self.process.communicate(timeout=60)[1]

    def counts(self) -> dict[str, Any]:
        out, err = self.process.communicate(timeout=120)
        assert self.process.returncode == 0, err
        counts: dict[str, Any] = json.loads(out)
        return counts


def database_of(service: Service) -> Any:
    if service.env.get("DATABASE_URL"):
        return psycopg.connect(service.env["DATABASE_URL"], autocommit=True)
    return sqlite3.connect(Path(service.env["CALLERID_DATA_DIR"]) / "callerid.sqlite3", isolation_level=None)


def count_rows(connection: Any, command: str) -> int:
    return int(connection.execute(f"SELECT count(*) FROM {TABLES[command]}").fetchone()[0])


@pytest.fixture
def file(tmp_path: Path) -> Callable[[str], str]:
    def write(command: str) -> str:
        path = tmp_path / f"{command}.csv"
        path.write_text("".join(FILES[command]), encoding="utf-8")
        return str(path)

    return write


@pytest.mark.parametrize(
    ("command", "ends"),
    [
        ("import_contacts", signal.SIGKILL),
        ("import_contacts", signal.SIGTERM),
        ("import_complaints", signal.SIGKILL),
        ("import_complaints", signal.SIGINT),
    ],
)
def test_import_ended_while_reading_changes_nothing(
    serve: Callable[..., Service], command: str, ends: signal.Signals
) -> None:
    service = serve()
    importing = Import(service, command)
    importing.feed(FILES[command], 4 * 2**20)
    said = importing.end(ends)
    assert importing.process.returncode != 0
    if ends != signal.SIGKILL:
        assert said == "CommandError: Interrupted. Nothing was changed.\n"
    with closing(database_of(service)) as connection:
        assert count_rows(connection, command) == 0


@each_import
def test_import_killed_while_writing_can_be_repeated(
    serve: Callable[..., Service], command: str, file: Callable[[str], str]
) -> None:
    service = serve()
    path = file(command)
    importing = Import(service, command, path)
    postgresql = bool(service.env.get("DATABASE_URL"))
    with closing(database_of(service)) as connection:
        count = partial(count_rows, connection, command)
        writing = partial(_writers, connection) if postgresql else count
        while not writing():
            assert importing.process.poll() is None, importing.process.communicate()
        importing.end(signal.SIGKILL)
        if postgresql:
            deadline = time.monotonic() + 60
            while writing():
                assert time.monotonic() < deadline
                time.sleep(0.02)
            assert count() == 0
        else:
            assert 0 < count() < ROWS
            assert count() % 5000 == 0
        done = count()
        counts = Import(service, command, path).counts()
        assert (counts["added"], counts["unchanged"]) == (ROWS - done, done)
        assert count() == ROWS


def _writers(connection: Any) -> int:
    """The number of PostgreSQL backends that are merging."""
    query = "query LIKE 'INSERT INTO phonebook_co%' AND state <> 'idle' AND datname = current_database()"
    return int(connection.execute(f"SELECT count(*) FROM pg_stat_activity WHERE {query}").fetchone()[0])


class Caller:
    """Searches one number after another in a thread until stopped; keeps the answers."""

    def __init__(self, service: Service) -> None:
        self.answers: list[tuple[int, dict[str, Any]]] = []
        self._url = f"{service.url}/callerid/search"
        self._key = service.manage("create_token", "caller", "--credits", "1000000", "--quiet").strip()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._search)
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _search(self) -> None:
        session, index = requests.Session(), 0
        while not self._stop.is_set():
            index = (index + 7919) % (ROWS // 2)
            body = {"api_key": self._key, "query": str(FIRST + index)}
            response = session.post(self._url, json=body, timeout=30)
            self.answers.append((response.status_code, response.json()))


def test_searches_during_an_import_see_all_of_it_or_nothing(
    serve: Callable[..., Service], file: Callable[[str], str], tmp_path: Path
) -> None:
    service = serve(RATE_LIMIT="1000000/m", COMPLAINT_THRESHOLD="4")
    caller = Caller(service)
    corrected = tmp_path / "corrected.csv"
    corrected.write_text("".join(CORRECTED), encoding="utf-8")
    try:
        for command in FILES:
            Import(service, command, file(command)).counts()
        imported = len(caller.answers) + 1  # the search under way may have read before
        counts = Import(service, "import_complaints", str(corrected)).counts()
    finally:
        caller.stop()
    assert {status for status, _ in caller.answers} == {200}
    # A search between the corrections of a number's two days could find two complaints, and would not return spam.
    assert counts["changed"] == ROWS
    assert {body["data"]["source_b"].get("spam") for _, body in caller.answers[imported:]} == {True}
    contacts = [body["data"]["source_a"] for _, body in caller.answers]
    assert all(("name" in contact) <= contact.get("location", "").startswith("Place") for contact in contacts)
    assert json.loads(service.manage("audit_credits", "--json")) == {"disagreements": []}


def test_two_imports_at_once_take_turns(serve: Callable[..., Service], file: Callable[[str], str]) -> None:
    service = serve()
    path = file("import_complaints")
    imports = [Import(service, "import_complaints", path) for _ in range(2)]
    counts = [one.counts() for one in imports]
    assert sorted((one["added"], one["unchanged"]) for one in counts) == [(0, ROWS), (ROWS, 0)]


def test_import_has_a_lower_priority_than_searches(serve: Callable[..., Service]) -> None:
    importing = Import(serve(), "import_contacts")
    importing.feed(CONTACTS, 2**20)  # it reads, so it has started
    own = os.getpriority(os.PRIO_PROCESS, 0)
    assert os.getpriority(os.PRIO_PROCESS, importing.process.pid) == min(19, own + 10)
    importing.end(signal.SIGKILL)
