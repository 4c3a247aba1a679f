"""Measures whether a search slows down as tables grow, and a process's memory over time: `python -m bench.growth`.

Runs bench.search's load on three databases of one durable PostgreSQL server in alternating rounds: one with 1,000
tokens and 10,000 ledger entries, one with --tokens tokens, and one with --ledger ledger entries. Then sends --searches
searches to one process without a pause and records its memory. Needs PostgreSQL's and Redis's
server binaries, and 0.3 GB of disk for each million ledger entries.
"""

import argparse
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from functools import partial

import psycopg

from bench import command, dataset, processes, report, targets
from bench.database import Database, without_indexes
from bench.load import LoadPlan
from bench.rounds import run_rounds
from bench.stack import Stack, fill_database, make_stack, sign_tokens
from tests.servers import PostgresServer, RedisServer, fresh_database

#: Tokens that search; they are evenly distributed over all tokens.
ACTIVE = 1_000
SMALL_LEDGER = 10_000
STEPS = 10

MORE_TOKENS = """
INSERT INTO accounts_apitoken (id, name, note, contact, jti, credits, lifetime_days, created_at, expires_at,
                               revoked_reason)
SELECT i, 'Bench ' || i, '', '', lpad(to_hex(i), 32, '0'), %(credits)s, 365, now(), now() + interval '365 days', ''
FROM generate_series(%(first)s::bigint, %(last)s::bigint) i
"""
# A year of searches: ordered by time, with tokens and request ids in no order.
_LEDGER = """
INSERT INTO accounts_creditentry (token_id, amount, balance_after, kind, actor, reason, reference, request_id,
                                  number_hash, created_at)
SELECT 1 + (i * 7919) %% %(tokens)s, -1, 1, 'search', '', '', '', md5(i::text),
       sha256(int8send(i)), now() - interval '365 days' * (1 - i / %(rows)s::float8)
FROM generate_series(1, %(rows)s::bigint) i
"""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=1_000_000)
    parser.add_argument("--ledger", type=int, default=10_000_000)
    parser.add_argument(
        "--searches", type=int, default=1_000_000, help="searches of the memory measurement; 0 skips it"
    )
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--rounds", type=int, default=5)
    return parser.parse_args()


def measure_growth(options: argparse.Namespace) -> str:
    sizes = {
        f"{dataset.TOKENS:,} tokens, {SMALL_LEDGER:,} ledger entries": (dataset.TOKENS, SMALL_LEDGER),
        f"{options.tokens:,} tokens": (options.tokens, SMALL_LEDGER),
        f"{options.ledger:,} ledger entries": (dataset.TOKENS, options.ledger),
    }
    with (
        closing(PostgresServer(durable=True).start()) as postgres,
        closing(RedisServer().start()) as cache,
        ExitStack() as contexts,
    ):
        stacks = {name: contexts.enter_context(_stack_of_size(postgres, cache, *size)) for name, size in sizes.items()}
        plan = LoadPlan([], [], 32, options.seconds, 2.0, distinct=dataset.NUMBERS)
        runs = {
            name: partial(targets.measure, targets.ours(), stack, replace(plan, api_keys=stack.api_keys))
            for name, stack in stacks.items()
        }
        results = run_rounds(runs, options.rounds)
        first = next(iter(stacks))
        parts = [
            "## Table size",
            report.medians_table(results),
            f"Ratios to {first}, same round:",
            report.ratios_table(results, first),
        ]
        if options.searches:
            parts += ["## Memory of a process", _memory_table(stacks[first], plan, options.searches)]
    return "\n\n".join(parts)


@contextmanager
def _stack_of_size(postgres: PostgresServer, cache: RedisServer, tokens: int, ledger: int) -> Iterator[Stack]:
    with fresh_database(postgres.url) as url:
        database = Database({"DATABASE_URL": url, "REDIS_URL": cache.url})
        api_keys = fill_database(database)
        if tokens > dataset.TOKENS:
            api_keys = sign_tokens(database, range(1, tokens + 1, tokens // ACTIVE))
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(MORE_TOKENS, {"first": dataset.TOKENS + 1, "last": tokens, "credits": dataset.CREDITS})
            write_ledger(connection, tokens, ledger)
        yield make_stack(postgres, cache, url, database, api_keys)


def write_ledger(connection: psycopg.Connection, tokens: int, ledger: int) -> None:
    """Inserts the ledger entries without foreign key checks and creates the indexes afterwards, which is faster."""
    with without_indexes(connection, "accounts_creditentry"):
        connection.execute(_LEDGER, {"tokens": tokens, "rows": ledger})


def _memory_table(stack: Stack, plan: LoadPlan, searches: int) -> str:
    """Returns Markdown: the memory of one process after each tenth of the searches."""
    lines = ["| searches | MB |", "| --- | --- |"]
    with targets.running(targets.ours(instances=1), stack) as (service,):
        (pid,) = targets.pids([service])
        done = 0
        while done < searches:
            step = replace(plan, ports=[service.port], api_keys=stack.api_keys, seconds=searches / STEPS / 500)
            result, _ = targets.under_load(step, {"app": [pid]})
            done += result.answered
            lines.append(f"| {done:,} | {processes.largest_resident_mb(pid):.1f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    options = arguments()
    print(command.run_or_exit(partial(measure_growth, options)))
