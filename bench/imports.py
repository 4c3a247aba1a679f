"""Measures imports and their effect on searches: `.venv/bin/python -m bench.imports [--rows 10000000]`.

Starts a PostgreSQL server (needs its binaries and psql), uses SQLite too, and measures:

- `import_contacts` and `import_complaints` compared with a baseline. On PostgreSQL: `psql \\copy` of the same file into
  an unindexed table and the same merge in SQL. On SQLite: `executemany` of an upsert into the same table, in batches of
  5,000 rows that the csv module reads;
- the import's peak memory, and bytes per row in the database;
- the duration of the lookup of a search with 10,000 contacts and complaint days and with --rows of them;
- the latency of a search over HTTP with and without a concurrent import.
"""

import argparse
import csv
import json
import random
import shutil
import sqlite3
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from itertools import islice
from pathlib import Path

import requests

from bench.database import KEYS, Database, psql
from bench.dataset import number
from tests.servers import PostgresServer, fresh_database
from tests.service import Service

SMALL = 10_000
SEARCHES = 20_000
NAMES = [f"{first} {last}" for first in ("Jane", "José", "Olga", "Li") for last in ("Doe", "Müller", "Sato", "Okafor")]
PLACES = ["Chicago", '"New York, NY"', "Houston", "Phoenix"]  # a quarter of the rows need quotes

# Run by `manage.py shell` on a database with {rows} numbers.
LOOKUPS = """
import json, random, time
from lookup.search import search
from bench.dataset import number
chosen = [str(number(random.randrange({rows}))) for _ in range({searches})]
durations = []
for one in chosen:
    started = time.perf_counter()
    search(one)
    durations.append(time.perf_counter() - started)
print(json.dumps(durations))
"""


def write_contacts(path: Path, rows: int) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.write("number,name,location\n")
        for index in range(rows):
            file.write(f"{number(index)},{NAMES[index % 16]},{PLACES[index % 4]}\n")


def write_complaints(path: Path, rows: int) -> None:
    days = [time.strftime("%Y-%m-%d", time.gmtime(time.time() - 86_400 * age)) for age in range(90)]
    with path.open("w", encoding="utf-8") as file:
        file.write("number,day,total,robocalls,subject\n")
        for index in range(rows):
            file.write(f"{number(index)},{days[index % 90]},{1 + index % 3},1,Other\n")


def lookups(database: Database, rows: int) -> list[float]:
    """Returns the durations of SEARCHES lookups of numbers that exist, in microseconds."""
    output = database.manage("shell", "--no-imports", "-c", LOOKUPS.format(rows=rows, searches=SEARCHES))
    return [float(seconds) * 1e6 for seconds in json.loads(output)]


#: The same merges in SQL, of the file {path}: take the first row of each key, in order; delete a day's complaints that
#: the file does not contain; count the existing rows; write the rows that differ.
BASELINES = {
    "import_contacts": """
        SET work_mem = '64MB';
        CREATE TABLE staged (number bigint, name text, location text);
        \\copy staged FROM '{path}' WITH (FORMAT csv, HEADER)
        CREATE TEMPORARY TABLE merged AS
        SELECT number, name, location FROM (
            SELECT number, name, location, row_number() OVER (PARTITION BY number) AS nth FROM staged) numbered
        WHERE nth = 1 ORDER BY number;
        ANALYZE merged;
        SELECT count(*), count(t.number) FROM merged LEFT JOIN phonebook_contact t USING (number);
        INSERT INTO phonebook_contact (number, name, location, updated_at)
        SELECT number, name, location, now() FROM merged
        ON CONFLICT (number) DO UPDATE
        SET name = excluded.name, location = excluded.location, updated_at = excluded.updated_at
        WHERE phonebook_contact.name IS DISTINCT FROM excluded.name
            OR phonebook_contact.location IS DISTINCT FROM excluded.location;
        ANALYZE phonebook_contact;
        DROP TABLE staged;
    """,
    "import_complaints": """
        SET work_mem = '64MB';
        CREATE TABLE staged (number bigint, day date, total bigint, robocalls bigint, subject text);
        \\copy staged FROM '{path}' WITH (FORMAT csv, HEADER)
        INSERT INTO phonebook_complaintsubject (text) SELECT DISTINCT subject FROM staged ON CONFLICT DO NOTHING;
        CREATE TEMPORARY TABLE merged AS
        SELECT number, 'import' AS source, day, total, robocalls, s.id AS subject_id FROM (
            SELECT *, row_number() OVER (PARTITION BY number, day) AS nth FROM staged) numbered
        LEFT JOIN phonebook_complaintsubject s ON s.text = subject
        WHERE nth = 1 ORDER BY number;
        ANALYZE merged;
        DELETE FROM phonebook_complaintday t USING (SELECT DISTINCT day FROM staged) days
        WHERE t.day = days.day AND t.source = 'import'
            AND NOT EXISTS (SELECT 1 FROM merged WHERE merged.number = t.number AND merged.day = t.day);
        SELECT count(*), count(t.id) FROM merged LEFT JOIN phonebook_complaintday t USING (number, source, day);
        INSERT INTO phonebook_complaintday (number, source, day, total, robocalls, subject_id)
        SELECT number, source, day, total, robocalls, subject_id FROM merged
        ON CONFLICT (number, source, day) DO UPDATE
        SET total = excluded.total, robocalls = excluded.robocalls, subject_id = excluded.subject_id
        WHERE phonebook_complaintday.total <> excluded.total OR phonebook_complaintday.robocalls <> excluded.robocalls
            OR phonebook_complaintday.subject_id IS DISTINCT FROM excluded.subject_id;
        ANALYZE phonebook_complaintday;
        DROP TABLE staged;
    """,
}
TABLES = {"import_contacts": "phonebook_contact", "import_complaints": "phonebook_complaintday"}
#: The statement that `executemany` runs on SQLite for each row.
UPSERTS = {
    "import_contacts": """
        INSERT INTO phonebook_contact (number, name, location, updated_at) VALUES (?, ?, ?, '2026-01-01 00:00:00')
        ON CONFLICT (number) DO UPDATE SET name = excluded.name, location = excluded.location
        WHERE name <> excluded.name OR location <> excluded.location
    """,
    "import_complaints": """
        INSERT INTO phonebook_complaintday (number, source, day, total, robocalls, subject_id)
        VALUES (?, 'import', ?, ?, ?, (SELECT id FROM phonebook_complaintsubject WHERE text = ?))
        ON CONFLICT (number, source, day) DO UPDATE SET total = excluded.total, robocalls = excluded.robocalls
        WHERE total <> excluded.total OR robocalls <> excluded.robocalls
    """,
}


def baseline_postgresql(url: str, command: str, path: Path) -> float:
    started = time.monotonic()
    psql(url, BASELINES[command].format(path=path))
    return time.monotonic() - started


def baseline_sqlite(database: Path, command: str, path: Path) -> float:
    started = time.monotonic()
    with path.open(encoding="utf-8", newline="") as file, closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA synchronous=FULL")
        rows = csv.reader(file)
        next(rows)
        while batch := list(islice(rows, 5000)):
            connection.executemany(UPSERTS[command], batch)
            connection.commit()
    return time.monotonic() - started


def compare(
    name: str,
    rows: int,
    rounds: int,
    baseline: Callable[[], float],
    ours: Callable[[], float],
    empty: Callable[[], object],
) -> None:
    """Compares the import into an empty table with the baseline, then the import of the same file again (no
    changes)."""
    for what, before in (("new rows", empty), ("no changes", lambda: None)):
        rates = []
        for _ in range(rounds):
            durations = []
            for load in (baseline, ours):
                before()
                durations.append(load())
            rates.append([rows / seconds / 1000 for seconds in durations])
        a, b = (statistics.median(column) for column in zip(*rates, strict=True))
        ratios = sorted(one / other for other, one in rates)
        spread = f"({ratios[0]:.2f}-{ratios[-1]:.2f})"
        print(f"{name + ', ' + what:<52} {a:8.0f} {b:8.0f} {statistics.median(ratios):7.2f}   {spread}", flush=True)


@contextmanager
def searching(environment: dict[str, str]) -> Iterator[Callable[[], float]]:
    """Starts the service. Yields a function that sends one search and returns its latency in milliseconds."""
    with tempfile.TemporaryDirectory() as directory:
        service = Service(Path(directory), {**KEYS, **environment, "RATE_LIMIT": "1000000/m"})
        service.start()
        try:
            key = service.manage("create_token", "bench", "--credits", "1000000", "--quiet").strip()
            session = requests.Session()

            def search() -> float:
                body = {"api_key": key, "query": str(number(random.randrange(SMALL)))}
                time.sleep(0.01)
                started = time.perf_counter()
                response = session.post(f"{service.url}/callerid/search", json=body, timeout=30)
                assert response.status_code == 200, response.text
                return (time.perf_counter() - started) * 1000

            for _ in range(100):
                search()
            yield search
        finally:
            service.kill()


def compare_during_import(name: str, environment: dict[str, str], load: Callable[[], object]) -> None:
    with searching(environment) as search:
        alone = [search() for _ in range(1000)]
        importing = threading.Thread(target=load)
        importing.start()
        during = []
        while importing.is_alive():
            during.append(search())
    a, b = statistics.median(alone), statistics.median(during)
    tail = f"p99 {statistics.quantiles(during, n=100)[-1]:.1f}, maximum {max(during):.0f}, of {len(during)} searches"
    print(f"{name:<52} {a:8.2f} {b:8.2f} {b / a:7.2f}   {tail}", flush=True)


def postgresql(server: PostgresServer, paths: dict[str, Path], rows: int, rounds: int) -> None:
    with fresh_database(server.url) as url:
        database = Database({"DATABASE_URL": url})
        for command, path in paths.items():
            compare(
                f"PostgreSQL, {command}",
                rows,
                rounds,
                partial(baseline_postgresql, url, command, path),
                partial(database.seconds, command, str(path)),
                partial(psql, url, f"TRUNCATE {TABLES[command]}; CHECKPOINT"),
            )


def sqlite(directory: Path, paths: dict[str, Path], rows: int, rounds: int) -> None:
    database = Database({"DATABASE_URL": "", "CALLERID_DATA_DIR": str(directory)})
    file = directory / "callerid.sqlite3"

    def empty(command: str) -> None:
        with closing(sqlite3.connect(file)) as connection, connection:
            connection.execute(f"DELETE FROM {TABLES[command]}")

    for command, path in paths.items():
        compare(
            f"SQLite, {command}",
            rows,
            rounds,
            partial(baseline_sqlite, file, command, path),
            partial(database.seconds, command, str(path)),
            partial(empty, command),
        )


def measure_during_imports(server: PostgresServer, directory: Path, path: Path) -> None:
    print(f"\n{'search over HTTP during import_contacts, ms':<52}  without  during   ratio")
    with fresh_database(server.url) as url:
        for name, environment in (
            ("SQLite", {"DATABASE_URL": "", "CALLERID_DATA_DIR": str(directory)}),
            ("PostgreSQL", {"DATABASE_URL": url}),
        ):
            load = partial(Database(environment).timed, "import_contacts", str(path))
            compare_during_import(name, environment, load)


def measure_by_size(server: PostgresServer, directory: Path, rows: int, rounds: int) -> None:
    with fresh_database(server.url) as small_url, fresh_database(server.url) as large_url:
        databases = {SMALL: Database({"DATABASE_URL": small_url}), rows: Database({"DATABASE_URL": large_url})}
        print()
        for size, database in databases.items():
            for command, write in (("import_contacts", write_contacts), ("import_complaints", write_complaints)):
                path = directory / "large.csv"
                write(path, size)
                seconds, memory = database.timed(command, str(path))
                print(f"{command} of {size:,} rows: {seconds:.0f} s, peak {memory:.0f} MB", flush=True)
        for url in (small_url, large_url):
            psql(url, "VACUUM ANALYZE")
        for table in ("phonebook_contact", "phonebook_complaintday"):
            sizes = psql(large_url, f"SELECT pg_table_size('{table}'), pg_indexes_size('{table}')").split("|")
            table_bytes, index_bytes = (int(size) / rows for size in sizes)
            print(f"{table}: {table_bytes:.0f} bytes per row, and {index_bytes:.0f} in indexes")
        print(f"\n{'lookup of a search, us':<47} {SMALL:>13,} {rows:>13,}   ratio")
        durations: dict[int, list[float]] = {size: [] for size in databases}
        for warm in (False, *[True] * rounds):
            for size, database in databases.items():
                measured = lookups(database, size)
                durations[size] += measured if warm else []
        for word, percentile in (("median", 50), ("99th percentile", 99)):
            a, b = (statistics.quantiles(values, n=100)[percentile - 1] for values in durations.values())
            print(f"{word:<47} {a:13.0f} {b:13.0f} {b / a:7.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000, help="rows in the large database (default: 1,000,000)")
    parser.add_argument(
        "--ratio-rows", type=int, default=1_000_000, help="rows of the compared imports (default: 1,000,000)"
    )
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, closing(PostgresServer(durable=True).start()) as server:
        directory = Path(name)
        data_dir = directory / "sqlite"
        data_dir.mkdir()
        paths = {"import_contacts": directory / "contacts.csv", "import_complaints": directory / "complaints.csv"}
        write_contacts(paths["import_contacts"], options.ratio_rows)
        write_complaints(paths["import_complaints"], options.ratio_rows)
        print(f"{'thousand rows/s, ' + format(options.ratio_rows, ',') + ' rows':<52} baseline     ours   ratio")
        postgresql(server, paths, options.ratio_rows, options.rounds)
        sqlite(data_dir, paths, options.ratio_rows, options.rounds)
        shutil.rmtree(data_dir)
        data_dir.mkdir()
        measure_during_imports(server, data_dir, paths["import_contacts"])
        measure_by_size(server, directory, options.rows, options.rounds)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main()
