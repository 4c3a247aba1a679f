"""What bench.search measures: local sources, remote ones, SQLite. Each returns markdown, and draws where asked to."""

import argparse
import shutil
import statistics
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from bench import contenders, figures, floor, rows, vendor
from bench.contenders import FASTAPI, NAIVE, REMOTE_FASTAPI, Contender
from bench.figures import Measured
from bench.load import Plan
from bench.rounds import Runs, in_turn
from bench.stack import embedded, standing

VENDOR_MS = 100
#: Of the least rate that one of them saturates at.
OFFERED = (0.25, 0.5, 0.75)


def local(options: argparse.Namespace) -> str:
    everybody = [*contenders.ours_pinned_and_not(options.threads), NAIVE, *FASTAPI.pinned_and_not()]
    services = _chosen(options, everybody)
    with standing() as stack:
        plan = _plan(stack.api_keys, options)
        runs: dict[str, Callable[[], Measured]] = {
            one.name: partial(contenders.measure, one, stack, plan) for one in services
        }
        for script in _named(options, floor.SCRIPTS):
            runs[script] = partial(
                floor.measure, script, stack, connections=options.connections, seconds=options.seconds
            )
        results = in_turn(runs, options.rounds)
        parts = [stack.version, _report("At saturation", results)]
        if options.half:
            halves = [one for one in services if one is not NAIVE]
            runs = {
                one.name: partial(contenders.measure, one, stack, replace(plan, rate=_rate(results[one.name]) / 2))
                for one in halves
            }
            parts.append(_report("At half of its own saturation", in_turn(runs, options.rounds)))
        stack.database.manage("audit_credits")
    if options.plot:
        figures.draw(results, options.plot)
    return "\n\n".join(parts)


def remote(options: argparse.Namespace) -> str:
    with tempfile.TemporaryDirectory() as presets, vendor.vendors(VENDOR_MS) as vendors, standing() as stack:
        _presets(Path(presets), options.calls)
        environment = {**vendor.bound(vendors.urls, Path(presets)), "MOCK_CALLS": str(options.calls)}
        services = [
            replace(one, environment={**one.environment, **environment})
            for one in _chosen(
                options, [*contenders.ours_pinned_and_not(options.threads), *REMOTE_FASTAPI.pinned_and_not()]
            )
        ]
        # No number comes twice, so that no kept answer is of use.
        plan = replace(
            _plan(stack.api_keys, options),
            first=rows.NUMBERS,
            distinct=10**9,
            whole='"source_a_available":true,"source_b_available":true',
        )

        def runs(rate: float | None) -> Runs:
            measure = partial(contenders.measure, answer=_of_vendors, beside={"vendors": vendors.pid})
            return {one.name: partial(measure, one, stack, replace(plan, rate=rate)) for one in services}

        results = in_turn(runs(None), options.rounds)
        least = min(map(_rate, results.values()))
        by_rate = {rate: in_turn(runs(rate), options.rounds) for rate in (least * share for share in OFFERED)}
        stack.database.manage("audit_credits")
    if options.plot:
        figures.draw_by_rate(by_rate, options.plot)
    return "\n\n".join(
        [
            f"{stack.version}. At most {options.calls} calls at once to a vendor, in each process.",
            _report(f"Two vendors at {VENDOR_MS} ms, at saturation", results),
            "## By offered rate",
            figures.absolute({f"{name}, {rate:.0f}/s": by_rate[rate][name] for name in results for rate in by_rate}),
        ]
    )


def sqlite(options: argparse.Namespace) -> str:
    with standing() as stack, embedded() as file:
        plan = replace(_plan(stack.api_keys, options), errors_too=True)
        runs = {
            name: partial(
                contenders.measure,
                contenders.ours(name, workers=1, threads=options.threads),
                database,
                replace(plan, api_keys=database.api_keys),
            )
            for name, database in (("ours on PostgreSQL", stack), ("ours on SQLite", file))
        }
        results = in_turn({name: runs[name] for name in _named(options, runs)}, options.rounds)
    if options.plot:
        figures.draw(results, options.plot)
    errors, locked = (sum(getattr(one, of) for ones in results.values() for one in ones) for of in ("errors", "locked"))
    found = f"{errors} errors of 500 and more, {locked} log lines of a locked database."
    return "\n\n".join([f"{stack.version}. One process each. {found}", _report("At saturation", results)])


def _plan(api_keys: list[str], options: argparse.Namespace) -> Plan:
    return Plan(0, api_keys, options.connections, options.seconds, options.warmup, distinct=rows.NUMBERS)


def _named(options: argparse.Namespace, names: Iterable[str]) -> list[str]:
    """Those that were asked for."""
    return [name for name in names if not options.only or any(part in name for part in options.only)]


def _chosen(options: argparse.Namespace, services: list[Contender]) -> list[Contender]:
    """Raises Failed where their packages are missing."""
    names = _named(options, [one.name for one in services])
    chosen = [one for one in services if one.name in names]
    contenders.require_packages(chosen)
    return chosen


def _rate(measured: list[Measured]) -> float:
    return statistics.median(one.rate for one in measured)


def _report(title: str, results: figures.Results) -> str:
    base = next(iter(results))
    parts = [f"## {title}", figures.absolute(results)]
    if len(results) > 1:
        parts += [f"Ratios to {base}, of the same round:", figures.ratios(results, base)]
    return "\n\n".join(parts)


def _presets(directory: Path, calls: int) -> None:
    """The mocks' presets, with so many calls at once."""
    for name in ("mock_a.toml", "mock_b.toml"):
        shutil.copy(vendor.PRESETS / name, directory / name)
        with (directory / name).open("a", encoding="utf-8") as preset:
            preset.write(f"\n[budget]\nconcurrency = {calls}\n")


def _of_vendors(index: int) -> dict[str, Any]:
    """What a search for that number answers, but for `credits_remaining`."""
    return {
        "success": True,
        "data": {
            "phone_number": str(rows.number(index)),
            "source_a": {"name": "Example Bakery", "location": "Springfield, IL"},
            "source_b": {"name": "Example Sweepstakes", "spam": True},
            "combined": {"source_a_available": True, "source_b_available": True},
        },
    }
