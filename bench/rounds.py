"""Alternating rounds of measurements: other load on the machine affects all of them alike."""

import sys
from collections.abc import Callable, Mapping

from bench.report import Measurement
from bench.targets import BenchError

#: Functions that make one measurement, by the name of what they measure.
Runs = Mapping[str, Callable[[], Measurement]]


def run_rounds(runs: Runs, rounds: int) -> dict[str, list[Measurement]]:
    """Calls each of `runs` once per round; each round starts with another one. Returns the results in the order of
    `runs`.

    Raises BenchError when `runs` is empty, and what a measurement raises.
    """
    if not runs:
        raise BenchError("Nothing to measure: --only matches no name.")
    results: dict[str, list[Measurement]] = {name: [] for name in runs}
    names = list(runs)
    for index in range(rounds):
        first = index % len(names)
        for name in names[first:] + names[:first]:
            results[name].append(measurement := runs[name]())
            print(f"round {index + 1} of {rounds}: {name}: {measurement}", file=sys.stderr)
    return results
