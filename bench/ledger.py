"""Measures what a debit writes and whether it slows down with the ledger: `python -m bench.ledger [--rows 20000000]`.

Runs the statement of a debit with pgbench on two databases of one durable PostgreSQL server, with 10,000 ledger entries
and with --rows, for 10,000 tokens, for one token, and with request ids in random order, as callers may send them. Each
case runs --debits debits after a checkpoint and as many again. Prints for each run the rate, the WAL and the full-page
images per debit, and the share of the token's updates that were HOT (wrote no index entry); then the bytes per entry of
the ledger and of each index. Needs PostgreSQL's server binaries and 0.3 GB of disk for each million entries.
"""

import argparse
import re
import subprocess
import tempfile
import time
from contextlib import closing
from functools import partial
from pathlib import Path

import psycopg

from bench import command, dataset
from bench.database import Database
from bench.growth import MORE_TOKENS, write_ledger
from bench.pgbench import INSERT, UPDATE
from bench.targets import BenchError
from tests.servers import PostgresServer, fresh_database, postgres_binary

SMALL = 10_000
TOKENS = 10_000
CLIENTS = 16
#: Within this time the backends that have ended have reported their statistics.
REPORTED_S = 1.0
# As the service creates them: ordered by time.
_ORDERED = "lpad(to_hex((extract(epoch FROM clock_timestamp()) * 1000)::bigint), 12, '0') || left(md5(:r::text), 20)"
_RANDOM = "md5(:r::text)"
CASES = {
    "10,000 tokens": (f"random(1, {TOKENS})", _ORDERED),
    "one token": ("1", _ORDERED),
    "10,000 tokens, random request ids": (f"random(1, {TOKENS})", _RANDOM),
}
_COUNTERS = """
SELECT wal_bytes, wal_fpi, n_tup_upd, n_tup_hot_upd FROM pg_stat_wal, pg_stat_user_tables
WHERE relname = 'accounts_apitoken'
"""
_SIZES = """
SELECT relname, pg_relation_size(oid)::float8 / (SELECT count(*) FROM accounts_creditentry) FROM pg_class
WHERE oid = 'accounts_creditentry'::regclass
    OR oid IN (SELECT indexrelid FROM pg_index WHERE indrelid = 'accounts_creditentry'::regclass)
ORDER BY 2 DESC
"""


def measure_ledger(rows: int, debits: int) -> str:
    lines = [
        "| entries | debits | run | debits/s | WAL bytes | full-page images | HOT |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    sizes: list[str] = []
    with closing(PostgresServer(durable=True).start()) as server:
        for entries in (SMALL, rows):
            with fresh_database(server.url) as url:
                Database({"DATABASE_URL": url})
                with psycopg.connect(url, autocommit=True) as connection:
                    connection.execute(MORE_TOKENS, {"first": 1, "last": TOKENS, "credits": dataset.CREDITS})
                    write_ledger(connection, TOKENS, entries)
                    connection.execute("VACUUM ANALYZE")
                    for case in CASES:
                        connection.execute("CHECKPOINT")
                        lines.extend(
                            f"| {entries:,} | {case} | {run} | {_run(connection, url, case, debits)} |"
                            for run in ("after a checkpoint", "again")
                        )
                    found = connection.execute(_SIZES).fetchall()
                    sizes += [f"| {entries:,} | {name} | {size:.1f} |" for name, size in found if size >= 1]
    return "\n".join([*lines, "", "| entries | table or index | bytes per entry |", "| --- | --- | --- |", *sizes])


def _run(connection: psycopg.Connection, url: str, case: str, debits: int) -> str:
    """Runs the debits and returns the cells of their row. Raises BenchError."""
    token, request_id = CASES[case]
    before = _counters(connection)
    with tempfile.NamedTemporaryFile("w", suffix=".sql") as file:
        file.write(
            f"\\set token {token}\n\\set r random(1, 9223372036854775807)\nWITH debit AS ({UPDATE}){INSERT}\n"
            f"    SELECT id, -1, credits, 'search', '', '', '', {request_id}, sha256(:r::text::bytea), now()\n"
            "    FROM debit;\n"
        )
        file.flush()
        process = subprocess.run(
            [
                *(postgres_binary("pgbench"), "-n", "-M", "prepared", "-f", file.name),
                *("-c", str(CLIENTS), "-j", "2", "-t", str(debits // CLIENTS), url),
            ],
            capture_output=True,
            text=True,
            check=False,
            cwd=Path(tempfile.gettempdir()),
        )
    rate = re.search(r"^tps = ([0-9.]+)", process.stdout, re.MULTILINE)
    if process.returncode or rate is None:
        raise BenchError(f"pgbench exited with status {process.returncode}:\n{process.stderr}")
    wal, images, updates, hot = (b - a for a, b in zip(before, _counters(connection), strict=True))
    if updates != debits // CLIENTS * CLIENTS:
        raise BenchError(f"pgbench ran {debits} debits and updated {updates} tokens.")
    return f"{float(rate[1]):,.0f} | {wal / updates:,.0f} | {images / updates:.2f} | {hot / updates:.3f}"


def _counters(connection: psycopg.Connection) -> list[int]:
    time.sleep(REPORTED_S)
    row = connection.execute(_COUNTERS).fetchone()
    assert row is not None
    return [int(value) for value in row]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000_000, help="entries in the large ledger")
    parser.add_argument("--debits", type=int, default=20_000, help="debits of each run")
    options = parser.parse_args()
    print(command.run_or_exit(partial(measure_ledger, options.rows, options.debits)))
