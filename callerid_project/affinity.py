"""Each worker on a CPU of its own.

Python runs one thread of a process at a time. Where a worker's threads may run on any CPU, whoever is next has to be
woken on another one, with cold caches: docs/performance.md has what that costs.
"""

import os
from pathlib import Path

_SYSTEM = Path("/sys/devices/system/cpu")


def keep_to_one(worker: int, first: int) -> int | None:
    """Keep this process, from its main thread on, to the CPU of the worker of that index; the CPU's number. `first`:
    any number, the same for all workers of a server, and another one for the next server, whose workers are not seen.

    None where the system knows no such thing, or does not allow it.
    """
    try:
        cpus = in_turn(os.sched_getaffinity(0), first)
        os.sched_setaffinity(0, {cpu := cpus[worker % len(cpus)]})
    except (AttributeError, OSError):
        return None
    return cpu


def in_turn(cpus: set[int], first: int, system: Path = _SYSTEM) -> list[int]:
    """`cpus` in the order in which they are given to workers: one of each core's, from any core on, then their
    hyper-threads."""
    cores: dict[str, list[int]] = {}
    for cpu in sorted(cpus):
        try:
            core = (system / f"cpu{cpu}" / "topology" / "thread_siblings_list").read_text(encoding="ascii")
        except OSError:
            core = str(cpu)
        cores.setdefault(core, []).append(cpu)
    begin = first % len(cores)
    of_cores = [*cores.values()][begin:] + [*cores.values()][:begin]
    return [of_core[turn] for turn in range(len(cpus)) for of_core in of_cores if turn < len(of_core)]
