"""Compares WSGI servers, granian and gunicorn's threads, in alternating rounds: `python -m bench.servers`.

Uses the embedded profile, which excludes PostgreSQL and Redis. Needs requirements-bench.lock: the service itself does
not depend on gunicorn. Compare the ratios only: load generator and server share the machine.
"""

import argparse
from functools import partial

from bench import command, report, targets
from bench.load import LoadPlan
from bench.rounds import run_rounds
from bench.stack import embedded_stack
from bench.targets import Target


def servers(threads: int) -> list[Target]:
    return [
        targets.ours("granian", workers=1, threads=threads),
        Target(
            "gunicorn",
            (
                *("gunicorn", "callerid_project.wsgi:application", "--bind", "127.0.0.1:{port}"),
                *("--worker-class", "gthread", "--threads", str(threads), "--keep-alive", "60"),
            ),
            needs=("gunicorn",),
        ),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--threads", type=int, default=4)
    options = parser.parse_args()
    print(command.run_or_exit(partial(compare, options)))


def compare(options: argparse.Namespace) -> str:
    targets.require_packages(servers(options.threads))
    with embedded_stack() as stack:
        plan = LoadPlan(0, stack.api_keys, options.connections, options.seconds, warmup_s=1)
        runs = {one.name: partial(targets.measure, one, stack, plan) for one in servers(options.threads)}
        results = run_rounds(runs, options.rounds)
    ratios = report.ratios_table(results, "gunicorn")
    return f"{report.medians_table(results)}\n\nRatios to gunicorn, same round:\n\n{ratios}"


if __name__ == "__main__":
    main()
