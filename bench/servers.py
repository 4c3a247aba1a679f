"""Compares ASGI servers: uvicorn with uvloop, as the service uses it, uvicorn with asyncio's loop, and granian.

`python -m bench.servers`. One process each, in alternating rounds, on the production profile. Needs
requirements/bench.lock: the service itself does not depend on granian. Compare the ratios only: load generator and
server share the machine.
"""

import argparse
from functools import partial

from bench import command, report, targets
from bench.load import LoadPlan
from bench.rounds import run_rounds
from bench.stack import production_stack
from bench.targets import Target

_APPLICATION = "callerid_project.asgi:application"
_UVICORN = (
    *("uvicorn", _APPLICATION, "--host", "127.0.0.1", "--port", "{port}", "--loop", "asyncio"),
    *("--http", "callerid_project.http_protocol:LimitedProtocol", "--ws", "none", "--lifespan", "on"),
    *("--no-access-log", "--no-proxy-headers", "--timeout-keep-alive", "620"),
)
_GRANIAN = ("granian", _APPLICATION, "--interface", "asgi", "--host", "127.0.0.1", "--port", "{port}", "--no-ws")
SERVERS = [
    targets.ours("uvicorn", instances=1),
    Target("uvicorn, asyncio's loop", _UVICORN, instances=1),
    Target("granian", _GRANIAN, needs=("granian",), instances=1),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--connections", type=int, default=32)
    options = parser.parse_args()
    print(command.run_or_exit(partial(compare, options)))


def compare(options: argparse.Namespace) -> str:
    targets.require_packages(SERVERS)
    with production_stack() as stack:
        plan = LoadPlan([], stack.api_keys, options.connections, options.seconds, warmup_s=1)
        runs = {one.name: partial(targets.measure, one, stack, plan) for one in SERVERS}
        results = run_rounds(runs, options.rounds)
    ratios = report.ratios_table(results, "uvicorn")
    return f"{report.medians_table(results)}\n\nRatios to uvicorn, same round:\n\n{ratios}"


if __name__ == "__main__":
    main()
