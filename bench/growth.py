"""Whether a search's cost grows: with tokens, with ledger rows, with the worker's age: `python -m bench.growth`.

Three databases on one durable PostgreSQL, of 1,000 tokens and some ledger rows, of --tokens tokens, and of --ledger
ledger rows, are searched in turn as in bench.search. Then one service answers --searches searches without a pause, and
its largest process is weighed along the way. Needs PostgreSQL's and Redis's server binaries, and disk: a million ledger
rows take 0.3 GB.
"""

import argparse
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from functools import partial

import psycopg

from bench import command, contenders, figures, processes, rows
from bench.database import Database
from bench.load import Plan
from bench.rounds import in_turn
from bench.stack import Stack, filled, signed, stack_on
from tests.servers import PostgresServer, RedisServer, fresh_database

#: Tokens that search, evenly spread over all of them.
ACTIVE = 1_000
SMALL_LEDGER = 10_000
STEPS = 10

_TOKENS = """
INSERT INTO accounts_apitoken (id, name, note, contact, jti, credits, lifetime_days, created_at, expires_at,
                               revoked_reason)
SELECT i, 'Bench ' || i, '', '', lpad(to_hex(i), 32, '0'), %(credits)s, 365, now(), now() + interval '365 days', ''
FROM generate_series(%(first)s::bigint, %(last)s::bigint) i
"""
# A year of searches, in the order of their time, of tokens and requests in none.
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
    parser.add_argument("--searches", type=int, default=1_000_000, help="of one service; 0: leave that out")
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--rounds", type=int, default=5)
    return parser.parse_args()


def growth(options: argparse.Namespace) -> str:
    sizes = {
        f"{rows.TOKENS:,} tokens, {SMALL_LEDGER:,} ledger rows": (rows.TOKENS, SMALL_LEDGER),
        f"{options.tokens:,} tokens": (options.tokens, SMALL_LEDGER),
        f"{options.ledger:,} ledger rows": (rows.TOKENS, options.ledger),
    }
    with (
        closing(PostgresServer(durable=True).start()) as postgres,
        closing(RedisServer().start()) as cache,
        ExitStack() as opened,
    ):
        stacks = {name: opened.enter_context(_filled(postgres, cache, *size)) for name, size in sizes.items()}
        plan = Plan(0, [], 32, options.seconds, 2.0, distinct=rows.NUMBERS)
        runs = {
            name: partial(contenders.measure, contenders.ours(), stack, replace(plan, api_keys=stack.api_keys))
            for name, stack in stacks.items()
        }
        results = in_turn(runs, options.rounds)
        first = next(iter(stacks))
        parts = ["## As tables grow", figures.absolute(results), f"Ratios to {first}:", figures.ratios(results, first)]
        if options.searches:
            parts += ["## As a worker ages", _aged(stacks[first], plan, options.searches)]
    return "\n\n".join(parts)


@contextmanager
def _filled(postgres: PostgresServer, cache: RedisServer, tokens: int, ledger: int) -> Iterator[Stack]:
    with fresh_database(postgres.url) as url:
        database = Database({"DATABASE_URL": url, "REDIS_URL": cache.url})
        api_keys = filled(database)
        if tokens > rows.TOKENS:
            api_keys = signed(database, range(1, tokens + 1, tokens // ACTIVE))
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(_TOKENS, {"first": rows.TOKENS + 1, "last": tokens, "credits": rows.CREDITS})
            _write_ledger(connection, tokens, ledger)
        yield stack_on(postgres, cache, url, database, api_keys)


def _write_ledger(connection: psycopg.Connection, tokens: int, ledger: int) -> None:
    """Without asking for each row whether its token is there, and with the indexes made afterwards."""
    found = connection.execute(
        "SELECT indexname, indexdef FROM pg_indexes WHERE tablename = 'accounts_creditentry'"
        " AND indexdef LIKE 'CREATE INDEX%' AND indexdef NOT LIKE '%WHERE%'"
    ).fetchall()
    connection.execute("SET session_replication_role = replica")
    connection.execute("SET maintenance_work_mem = '1GB'")
    for name, _ in found:
        connection.execute(f'DROP INDEX "{name}"')
    connection.execute(_LEDGER, {"tokens": tokens, "rows": ledger})
    for _, definition in found:
        connection.execute(definition)


def _aged(stack: Stack, plan: Plan, searches: int) -> str:
    """A table of the largest process's memory after every tenth of the searches."""
    lines = ["| searches | largest process MB |", "| --- | --- |"]
    with contenders.running(contenders.ours(), stack) as (service, app):
        done = 0
        while done < searches:
            wanted = replace(plan, port=service.port, api_keys=stack.api_keys, seconds=searches / STEPS / 500)
            outcome, _ = contenders.under_load(wanted, {"app": app})
            done += outcome.answered
            lines.append(f"| {done:,} | {processes.largest_resident_mb(app):.1f} |")
    return "\n".join(lines)


if __name__ == "__main__":
    options = arguments()
    print(command.told(partial(growth, options)))
