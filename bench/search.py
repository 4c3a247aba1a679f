"""Compares a search's rate, latency and CPU time with other services: `python -m bench.search [--rounds 1]`.

Starts PostgreSQL (durable) and Redis, and measures on the same data: this service ("ours"); a naive DRF service and a
straightforward FastAPI service (bench/peers); and pgbench, which runs the statements alone. Each round measures all of
them, in another order. Each service runs as two independent processes on two ports, which the load generator uses
alike; CPU time is that of both, memory that of the larger one.
A search does the same in all of them: verify the JWT and look up its token, count the request in Redis, read a contact
and the sum of complaints, charge one credit durably with a ledger entry, answer JSON.

Needs PostgreSQL's and Redis's server binaries, and requirements/bench.lock. Compare the ratios only: load generator and
servers share the machine.
"""

import argparse
import os
import platform
from functools import partial
from pathlib import Path

from bench import command, scenarios


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--remote",
        action="store_true",
        help="both sources are local mock vendors with a latency of 100 ms; the peer is FastAPI with aiohttp",
    )
    which.add_argument(
        "--sqlite", action="store_true", help="ours on SQLite and ours on PostgreSQL, with one process each"
    )
    parser.add_argument(
        "--half", action="store_true", help="also measure ours and FastAPI at half of each one's saturation rate"
    )
    parser.add_argument("--seconds", type=float, default=10, help="duration of one measurement")
    parser.add_argument("--warmup", type=float, default=2, help="seconds of load before each measurement")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--connections", type=int, help="default: 32; with --remote 128, with --sqlite 64")
    parser.add_argument("--calls", type=int, default=16, help="with --remote: concurrent calls per vendor and process")
    parser.add_argument(
        "--only", nargs="+", metavar="NAME", help="measure only these: names in the table, or parts of them"
    )
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the tables as Markdown")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="write a chart as SVG")
    options = parser.parse_args()
    if options.half and (options.remote or options.sqlite):
        parser.error("--half cannot be combined with --remote or --sqlite")
    options.connections = options.connections or (128 if options.remote else 64 if options.sqlite else 32)
    return options


def main() -> None:
    options = arguments()
    scenario = scenarios.remote if options.remote else scenarios.sqlite if options.sqlite else scenarios.local
    tables = command.run_or_exit(partial(scenario, options))
    text = (
        f"{options.rounds} rounds of {options.seconds:g} s, {options.connections} connections, {os.cpu_count()} cores "
        f"shared by all processes, Python {platform.python_version()}. Medians (minimum–maximum); CPU time is "
        f"per search.\n\n{tables}\n"
    )
    print(text)
    if options.write:
        options.write.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
