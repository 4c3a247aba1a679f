"""Which WSGI server: the same searches through granian and gunicorn's threads, in turn: `python -m bench.servers`.

On the embedded profile, so that nothing else is measured. Needs requirements-bench.lock: gunicorn is no dependency of
the service. Keep the ratios: load and server share the machine.
"""

import argparse
from functools import partial

from bench import command, contenders, figures
from bench.contenders import Contender
from bench.load import Plan
from bench.rounds import in_turn
from bench.stack import embedded


def servers(threads: int) -> list[Contender]:
    return [
        contenders.ours("granian", workers=1, threads=threads),
        Contender(
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
    print(command.told(partial(measured, options)))


def measured(options: argparse.Namespace) -> str:
    contenders.require_packages(servers(options.threads))
    with embedded() as stack:
        plan = Plan(0, stack.api_keys, options.connections, options.seconds, warmup_s=1)
        runs = {one.name: partial(contenders.measure, one, stack, plan) for one in servers(options.threads)}
        results = in_turn(runs, options.rounds)
    return f"{figures.absolute(results)}\n\nRatios to gunicorn:\n\n{figures.ratios(results, 'gunicorn')}"


if __name__ == "__main__":
    main()
