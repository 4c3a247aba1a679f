"""What a search costs, ours and others' beside each other: `python -m bench.search [--seconds 2 --rounds 1]`.

In turn, on the same PostgreSQL (durable) and Redis, which it starts, and on the same rows: ours; a naive DRF service
and a straightforward FastAPI service (bench/peers); and PostgreSQL's floor by pgbench. Each round goes through all of
them, in an order of its own. Ours and FastAPI run twice: each worker process pinned to a CPU of its own, and not.
A search is the same for all: the JWT verified and its token found, the minute's limit counted in Redis, a contact and a
sum of complaints read, one credit taken durably with its ledger row, JSON.

Needs PostgreSQL's and Redis's server binaries, and requirements-bench.lock. Load and servers share the machine: keep
the ratios.
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
        help="both sources are vendors on loopback that answer after 100 ms; the peer is FastAPI with aiohttp",
    )
    which.add_argument(
        "--sqlite", action="store_true", help="ours on SQLite beside ours on PostgreSQL, each with one process"
    )
    parser.add_argument(
        "--half", action="store_true", help="ours and FastAPI also at half of the rate that each saturates at"
    )
    parser.add_argument("--seconds", type=float, default=10, help="that each is measured for in a round")
    parser.add_argument("--warmup", type=float, default=2, help="seconds before, of the same load")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--connections", type=int, help="default: 32; with --remote 128, with --sqlite 64")
    parser.add_argument(
        "--threads", type=int, help="of ours, in each process; default: 4, with --remote as many as --calls"
    )
    parser.add_argument(
        "--calls", type=int, default=16, help="with --remote: calls at once to a vendor, of a process of any of them"
    )
    parser.add_argument("--only", nargs="+", metavar="NAME", help="names as in the table, or parts of them")
    parser.add_argument("--write", type=Path, metavar="FILE", help="the tables, as markdown")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="an SVG")
    options = parser.parse_args()
    if options.half and (options.remote or options.sqlite):
        parser.error("--half is for local sources on PostgreSQL")
    options.connections = options.connections or (128 if options.remote else 64 if options.sqlite else 32)
    options.threads = options.threads or (options.calls if options.remote else 4)
    return options


def main() -> None:
    options = arguments()
    scenario = scenarios.remote if options.remote else scenarios.sqlite if options.sqlite else scenarios.local
    told = command.told(partial(scenario, options))
    text = (
        f"{options.rounds} rounds of {options.seconds:g} s, {options.connections} connections, {os.cpu_count()} cores "
        f"for everything, Python {platform.python_version()}. Medians (least–most); CPU is for each search.\n\n{told}\n"
    )
    print(text)
    if options.write:
        options.write.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
