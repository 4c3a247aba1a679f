"""Several rounds of several measurements, so that what else the machine does falls on all of them."""

import sys
from collections.abc import Callable, Mapping

from bench.contenders import Failed
from bench.figures import Measured

#: One measurement of what the name says.
Runs = Mapping[str, Callable[[], Measured]]


def in_turn(runs: Runs, rounds: int) -> dict[str, list[Measured]]:
    """Every round measures each once, beginning with the next one; the results in the order of `runs`.

    Raises Failed, as they do.
    """
    if not runs:
        raise Failed("There is nothing to measure: --only has no such name.")
    results: dict[str, list[Measured]] = {name: [] for name in runs}
    names = list(runs)
    for turn in range(rounds):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            results[name].append(measured := runs[name]())
            print(f"round {turn + 1} of {rounds}: {name}: {measured}", file=sys.stderr)
    return results
