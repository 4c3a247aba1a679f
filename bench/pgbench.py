"""The baseline: pgbench runs a search's statements, prepared, without an application."""

import re
import subprocess
import tempfile
import time
from pathlib import Path

from bench import dataset, processes
from bench.report import Measurement
from bench.stack import Stack
from bench.targets import BenchError
from tests.servers import postgres_binary

#: After this time the postmaster has collected the CPU time of pgbench's backends, which have ended.
BACKENDS_ENDED_S = 0.5

# Cycles through tokens and numbers as bench.load does.
_READ = f"""
\\set n :n + 1
\\set i (:n * :connections + :client_id) % {dataset.NUMBERS}
\\set number 12000000000 + (:i * 7654321) % 7999999993
\\set token 1 + :i % {dataset.TOKENS}
\\set request random(1, 9223372036854775807)
SELECT id, credits FROM accounts_apitoken WHERE jti = lpad(to_hex(:token::int), 32, '0') AND revoked_at IS NULL;
SELECT name, location FROM phonebook_contact WHERE number = :number;
SELECT sum(total) FROM phonebook_complaintday WHERE number = :number AND day > current_date - 90;
"""
UPDATE = """
UPDATE accounts_apitoken SET credits = credits - 1, last_charged_at = now()
    WHERE id = :token AND credits >= 1 RETURNING id, credits"""
INSERT = """
INSERT INTO accounts_creditentry (token_id, amount, balance_after, kind, actor, reason, reference, request_id,
    number_hash, created_at)"""
_VALUES = "'search', '', '', '', md5(:request::text), sha256(:request::text::bytea), now()"
SCRIPTS = {
    "pgbench: the transaction": (
        f"{_READ}BEGIN;{UPDATE} \\gset\n{INSERT}\n    VALUES (:token, -1, :credits, {_VALUES});\nCOMMIT;\n"
    ),
    "pgbench: debit and ledger in one statement": (
        f"{_READ}WITH debit AS ({UPDATE}){INSERT}\n    SELECT id, -1, credits, {_VALUES} FROM debit;\n"
    ),
}


def measure(script: str, stack: Stack, *, connections: int, seconds: float) -> Measurement:
    """Measures the rate of a script and PostgreSQL's CPU time per search. Raises BenchError."""
    stack.clean()
    postgres = stack.pids["postgres"]
    with tempfile.NamedTemporaryFile("w", suffix=".sql") as file:
        file.write(SCRIPTS[script])
        file.flush()
        duration_s = max(1, round(seconds))
        before_s, before = processes.cpu_s(postgres), stack.credits()
        process = subprocess.run(
            [
                *(postgres_binary("pgbench"), "-n", "-M", "prepared", "-f", file.name, "-T", str(duration_s)),
                *("-c", str(connections), "-j", "2", "-D", f"connections={connections}", "-D", "n=0"),
                stack.database_url,
            ],
            capture_output=True,
            text=True,
            check=False,
            cwd=Path(tempfile.gettempdir()),
        )
        time.sleep(BACKENDS_ENDED_S)
        used_s, charged = processes.cpu_s(postgres) - before_s, before - stack.credits()
    rate = re.search(r"^tps = ([0-9.]+)", process.stdout, re.MULTILINE)
    count = re.search(r"^number of transactions actually processed: ([0-9]+)", process.stdout, re.MULTILINE)
    if process.returncode or rate is None or count is None:
        raise BenchError(f"pgbench exited with status {process.returncode}:\n{process.stderr}")
    if charged != int(count[1]):
        raise BenchError(f"pgbench ran {count[1]} searches and charged {charged} credits.")
    return Measurement(rate=float(rate[1]), postgres_ms=used_s / charged * 1000)
