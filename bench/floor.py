"""What PostgreSQL alone can do: a search's statements by pgbench, prepared, without an application."""

import re
import subprocess
import tempfile
import time
from pathlib import Path

from bench import processes, rows
from bench.contenders import Failed
from bench.figures import Measured
from bench.stack import Stack
from tests.servers import postgres_binary

#: By then the postmaster knows that pgbench's backends have ended, and what they used.
ENDED_S = 0.5

# Tokens and numbers in circles, as bench.load has them.
_READ = f"""
\\set n :n + 1
\\set i (:n * :connections + :client_id) % {rows.NUMBERS}
\\set number 12000000000 + (:i * 7654321) % 7999999993
\\set token 1 + :i % {rows.TOKENS}
\\set request random(1, 9223372036854775807)
SELECT id, credits FROM accounts_apitoken WHERE jti = lpad(to_hex(:token::int), 32, '0') AND revoked_at IS NULL;
SELECT name, location FROM lookup_contact WHERE number = :number;
SELECT sum(total) FROM lookup_complaintday WHERE number = :number AND day > current_date - 90;
"""
_UPDATE = """
UPDATE accounts_apitoken SET credits = credits - 1, last_charged_at = now()
    WHERE id = :token AND credits >= 1 RETURNING id, credits"""
_INSERT = """
INSERT INTO accounts_creditentry (token_id, amount, balance_after, kind, actor, reason, reference, request_id,
    number_hash, created_at)"""
_VALUES = "'search', '', '', '', md5(:request::text), sha256(:request::text::bytea), now()"
SCRIPTS = {
    "pgbench: the transaction": (
        f"{_READ}BEGIN;{_UPDATE} \\gset\n{_INSERT}\n    VALUES (:token, -1, :credits, {_VALUES});\nCOMMIT;\n"
    ),
    "pgbench: debit and ledger in one statement": (
        f"{_READ}WITH debit AS ({_UPDATE}){_INSERT}\n    SELECT id, -1, credits, {_VALUES} FROM debit;\n"
    ),
}


def measure(script: str, stack: Stack, *, connections: int, seconds: float) -> Measured:
    """Searches a second of that script, and PostgreSQL's CPU. Raises Failed."""
    stack.clean()
    postgres = stack.pids["postgres"]
    with tempfile.NamedTemporaryFile("w", suffix=".sql") as file:
        file.write(SCRIPTS[script])
        file.flush()
        whole_seconds = max(1, round(seconds))
        before_s, before = processes.cpu_s(postgres), stack.credits()
        done = subprocess.run(
            [
                *(postgres_binary("pgbench"), "-n", "-M", "prepared", "-f", file.name, "-T", str(whole_seconds)),
                *("-c", str(connections), "-j", "2", "-D", f"connections={connections}", "-D", "n=0"),
                stack.database_url,
            ],
            capture_output=True,
            text=True,
            check=False,
            cwd=Path(tempfile.gettempdir()),
        )
        time.sleep(ENDED_S)
        used_s, taken = processes.cpu_s(postgres) - before_s, before - stack.credits()
    rate = re.search(r"^tps = ([0-9.]+)", done.stdout, re.MULTILINE)
    count = re.search(r"^number of transactions actually processed: ([0-9]+)", done.stdout, re.MULTILINE)
    if done.returncode or rate is None or count is None:
        raise Failed(f"pgbench ended with {done.returncode}:\n{done.stderr}")
    if taken != int(count[1]):
        raise Failed(f"pgbench ran {count[1]} searches and took {taken} credits.")
    return Measured(rate=float(rate[1]), postgres_ms=used_s / taken * 1000)
