"""Measures one process under many times its saturation rate, and beside slow clients: `python -m bench.overload`.

First the saturation rate (closed loop) of one process on PostgreSQL (durable) and Redis. Then searches arrive at
--times that rate for --seconds: prints the rate of 200 answers within SEARCH_DEADLINE_S, the other answers, the credits
charged, and a search one second after the last answer. Last, searches at a fifth of the saturation rate, without and
with --clients that send a byte a second each to the same port. Needs PostgreSQL's and Redis's server binaries.
"""

import argparse
import time
from dataclasses import replace
from functools import partial

from bench import command, dataset, processes, slow_clients, targets
from bench.load import LoadPlan, LoadResult
from bench.stack import Stack, production_stack
from tests.service import Service

#: As the service's default of SEARCH_DEADLINE_S.
DEADLINE_S = 1.5
CONNECTIONS = 64
#: A search that is due while all are in use waits; its time counts from when it was due.
OVERLOADED_CONNECTIONS = 2_000
#: Of the saturation rate, beside the slow clients.
GOOD_SHARE = 0.2


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--times", type=float, default=4)
    parser.add_argument("--set", nargs="+", metavar="NAME=VALUE", default=[], help="settings of the service")
    parser.add_argument("--clients", type=int, default=500)
    return parser.parse_args()


def measure(options: argparse.Namespace) -> str:
    settings = dict(one.split("=", 1) for one in options.set)
    target = replace(targets.ours(instances=1), environment=settings)
    with production_stack() as stack, targets.running(target, stack) as (service,):
        plan = LoadPlan(
            [service.port], stack.api_keys, CONNECTIONS, options.seconds, 2.0,
            distinct=dataset.NUMBERS, allow_errors=True, deadline_s=DEADLINE_S,
        )  # fmt: skip
        load = partial(_load, stack)
        saturation, _ = load(replace(plan, seconds=min(10.0, options.seconds)))
        rate = saturation.rate * options.times
        overloaded = replace(plan, rate=rate, connections=OVERLOADED_CONNECTIONS)
        before_ms = _search_ms(service, stack)
        answers, charged = load(overloaded)
        time.sleep(1)
        after_ms = _search_ms(service, stack)
        largest_mb = processes.largest_resident_mb(*targets.pids([service]))
        good = replace(plan, rate=saturation.rate * GOOD_SHARE)
        alone, _ = load(good)
        with slow_clients.run(service.port, options.clients):
            beside, _ = load(good)
    share = answers.rate_in_time / saturation.rate
    return "\n".join(
        [
            f"## {options.times:g} times the saturation rate",
            f"- saturation: {saturation.rate:.0f} searches/s with {CONNECTIONS} connections",
            f"- offered: {rate:.0f}/s for {options.seconds:g} s over {overloaded.connections} connections",
            f"- 200 within {DEADLINE_S:g} s: {answers.rate_in_time:.0f}/s, {share:.2f} of the saturation rate",
            f"- all 200: {answers.rate:.0f}/s, median {answers.p50_ms:.0f} ms, p99 {answers.p99_ms:.0f} ms",
            f"- 503: {answers.refused:,}, the slowest after {answers.slowest_refusal_ms:.0f} ms",
            f"- other 5xx: {answers.errors:,}",
            f"- credits charged: {charged:,} for {answers.answered:,} answers",
            f"- a search before: {before_ms:.1f} ms; one second after the last answer: {after_ms:.1f} ms",
            f"- memory afterwards: {largest_mb:.0f} MB",
            "",
            f"## Searches at {good.rate:.0f}/s",
            _describe("without slow clients", alone),
            _describe(f"beside {options.clients} slow clients", beside),
        ]
    )


def _describe(title: str, result: LoadResult) -> str:
    return (
        f"- {title}: {result.rate:.0f}/s, median {result.p50_ms:.1f} ms, p99 {result.p99_ms:.0f} ms, "
        f"{result.refused + result.errors} failed"
    )


def _load(stack: Stack, plan: LoadPlan) -> tuple[LoadResult, int]:
    """Returns the answers, and the credits charged for them."""
    before = stack.credits()
    result, _ = targets.under_load(plan, {})
    return result, before - stack.credits()


def _search_ms(service: Service, stack: Stack) -> float:
    """Returns how long eight searches on new connections take, each. Raises BenchError."""
    started = time.perf_counter()
    targets.check(service.port, stack.api_keys[0], dataset.answer)
    return (time.perf_counter() - started) * 1000 / 8


if __name__ == "__main__":
    options = arguments()
    print(command.run_or_exit(partial(measure, options)))
