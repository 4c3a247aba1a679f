"""What a process and all its descendants cost, read from /proc."""

import os
from pathlib import Path

from callerid_project.affinity import in_turn as one_of_each_core

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGESIZE")
_PARENT, _UTIME, _CSTIME = 1, 11, 14  # places in /proc/<pid>/stat behind the name (proc_pid_stat(5), less 3)


def _stats() -> dict[int, list[bytes]]:
    stats = {}
    for entry in os.listdir("/proc"):  # noqa: PTH208  (a Path for each would cost more than reading them)
        if entry.isdigit():
            try:
                stat = Path("/proc", entry, "stat").read_bytes()
            except OSError:  # it has ended meanwhile
                continue
            stats[int(entry)] = stat[stat.rindex(b")") + 2 :].split()
    return stats


def _tree(root: int, stats: dict[int, list[bytes]]) -> list[int]:
    children: dict[int, list[int]] = {}
    for pid, stat in stats.items():
        children.setdefault(int(stat[_PARENT]), []).append(pid)
    pids = [root] if root in stats else []
    for pid in pids:
        pids += children.get(pid, [])
    return pids


def cpu_s(root: int) -> float:
    """Seconds, user and system, in steps of a tick (10 ms) a process; descendants that have ended are in it."""
    stats = _stats()
    return sum(int(ticks) for pid in _tree(root, stats) for ticks in stats[pid][_UTIME : _CSTIME + 1]) / _TICKS


def largest_resident_mb(root: int) -> float:
    """Of the process with the most memory."""
    pages = [int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) for pid in _tree(root, _stats())]
    return max(pages) * _PAGE / 2**20


def pin_workers(root: int) -> int:
    """Keeps each worker of the multiprocessing server `root` on a CPU of its own, as PIN_WORKERS keeps ours; how many.

    Workers are the children that `multiprocessing` spawned; its resource tracker is none.
    """
    cpus = one_of_each_core(os.sched_getaffinity(0), 0)
    workers = [pid for pid in _tree(root, _stats()) if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    for index, pid in enumerate(workers):
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208
            os.sched_setaffinity(int(thread), {cpus[index % len(cpus)]})
    return len(workers)
