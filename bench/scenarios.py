"""The scenarios of bench.search: local sources, vendors, SQLite. Each returns Markdown, and can write a chart."""

import argparse
import shutil
import statistics
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from bench import dataset, mock_vendors, pgbench, report, targets
from bench.load import LoadPlan
from bench.report import Measurement
from bench.rounds import Runs, run_rounds
from bench.stack import embedded_stack, production_stack
from bench.targets import FASTAPI, NAIVE, REMOTE_FASTAPI, Target

VENDOR_MS = 100
#: Offered rates, as fractions of the lowest saturation rate.
OFFERED = (0.25, 0.5, 0.75)


def local(options: argparse.Namespace) -> str:
    services = _chosen(options, [targets.ours(), NAIVE, FASTAPI])
    with production_stack() as stack:
        plan = _plan(stack.api_keys, options)
        runs: dict[str, Callable[[], Measurement]] = {
            one.name: partial(targets.measure, one, stack, plan) for one in services
        }
        for script in _matching(options, pgbench.SCRIPTS):
            runs[script] = partial(
                pgbench.measure, script, stack, connections=options.connections, seconds=options.seconds
            )
        results = run_rounds(runs, options.rounds)
        parts = [stack.version, _section("At saturation", results)]
        if options.half:
            at_half = [one for one in services if one is not NAIVE]
            runs = {
                one.name: partial(targets.measure, one, stack, replace(plan, rate=_rate(results[one.name]) / 2))
                for one in at_half
            }
            parts.append(_section("At half of each one's saturation rate", run_rounds(runs, options.rounds)))
        stack.database.manage("audit_credits")
    if options.plot:
        report.plot_saturation(results, options.plot)
    return "\n\n".join(parts)


def remote(options: argparse.Namespace) -> str:
    with tempfile.TemporaryDirectory() as presets, mock_vendors.run(VENDOR_MS) as vendors, production_stack() as stack:
        _write_presets(Path(presets), options.calls)
        environment = {**mock_vendors.slot_settings(vendors.urls, Path(presets)), "MOCK_CALLS": str(options.calls)}
        services = [
            replace(one, environment={**one.environment, **environment})
            for one in _chosen(options, [targets.ours(), REMOTE_FASTAPI])
        ]
        # Each number is searched once, so that no cached answer is used.
        plan = replace(
            _plan(stack.api_keys, options),
            first=dataset.NUMBERS,
            distinct=10**9,
            complete_text='"source_a_available":true,"source_b_available":true',
        )

        def runs(rate: float | None) -> Runs:
            measure = partial(targets.measure, answer=_vendor_answer, other_processes={"vendors": vendors.pid})
            return {one.name: partial(measure, one, stack, replace(plan, rate=rate)) for one in services}

        results = run_rounds(runs(None), options.rounds)
        lowest = min(map(_rate, results.values()))
        by_rate = {rate: run_rounds(runs(rate), options.rounds) for rate in (lowest * share for share in OFFERED)}
        stack.database.manage("audit_credits")
    if options.plot:
        report.plot_by_rate(by_rate, options.plot)
    return "\n\n".join(
        [
            f"{stack.version}. At most {options.calls} concurrent calls per vendor and process.",
            _section(f"Two vendors with a latency of {VENDOR_MS} ms, at saturation", results),
            "## By offered rate",
            report.medians_table(
                {f"{name}, {rate:.0f}/s": by_rate[rate][name] for name in results for rate in by_rate}
            ),
        ]
    )


def sqlite(options: argparse.Namespace) -> str:
    with production_stack() as stack, embedded_stack() as sqlite_stack:
        plan = replace(_plan(stack.api_keys, options), allow_errors=True)
        runs = {
            name: partial(
                targets.measure,
                targets.ours(name, instances=1),
                database,
                replace(plan, api_keys=database.api_keys),
            )
            for name, database in (("ours on PostgreSQL", stack), ("ours on SQLite", sqlite_stack))
        }
        results = run_rounds({name: runs[name] for name in _matching(options, runs)}, options.rounds)
    if options.plot:
        report.plot_saturation(results, options.plot)
    errors, locked = (
        sum(getattr(one, name) for ones in results.values() for one in ones) for name in ("errors", "locked")
    )
    found = f"{errors} 5xx errors, {locked} 'database is locked' log lines."
    return "\n\n".join([f"{stack.version}. One process each. {found}", _section("At saturation", results)])


def _plan(api_keys: list[str], options: argparse.Namespace) -> LoadPlan:
    return LoadPlan([], api_keys, options.connections, options.seconds, options.warmup, distinct=dataset.NUMBERS)


def _matching(options: argparse.Namespace, names: Iterable[str]) -> list[str]:
    """Returns the names that contain one of --only, or all of them without it."""
    return [name for name in names if not options.only or any(part in name for part in options.only)]


def _chosen(options: argparse.Namespace, services: list[Target]) -> list[Target]:
    """Returns the services that --only selects. Raises BenchError when a package that they need is missing."""
    names = _matching(options, [one.name for one in services])
    chosen = [one for one in services if one.name in names]
    targets.require_packages(chosen)
    return chosen


def _rate(measured: list[Measurement]) -> float:
    return statistics.median(one.rate for one in measured)


def _section(title: str, results: report.Results) -> str:
    base = next(iter(results))
    parts = [f"## {title}", report.medians_table(results)]
    if len(results) > 1:
        parts += [f"Ratios to {base}, same round:", report.ratios_table(results, base)]
    return "\n\n".join(parts)


def _write_presets(directory: Path, calls: int) -> None:
    """Writes the mock vendors' presets with `calls` as their concurrency limit."""
    for name in ("mock_a.toml", "mock_b.toml"):
        shutil.copy(mock_vendors.PRESETS / name, directory / name)
        with (directory / name).open("a", encoding="utf-8") as preset:
            preset.write(f"\n[budget]\nconcurrency = {calls}\n")


def _vendor_answer(index: int) -> dict[str, Any]:
    """Returns the expected answer to a search for that number, without `credits_remaining`."""
    return {
        "success": True,
        "data": {
            "phone_number": str(dataset.number(index)),
            "source_a": {"name": "Example Bakery", "location": "Springfield, IL"},
            "source_b": {"name": "Example Sweepstakes", "spam": True},
            "combined": {"source_a_available": True, "source_b_available": True},
        },
    }
