"""CPU time and memory of a process and its descendants, read from /proc."""

import os
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGESIZE")
_PARENT, _UTIME, _CSTIME = 1, 11, 14  # fields of /proc/<pid>/stat after the name (numbers of proc_pid_stat(5) minus 3)


def _stats() -> dict[int, list[bytes]]:
    stats = {}
    for entry in os.listdir("/proc"):  # noqa: PTH208  (creating Path objects costs more than reading the files)
        if entry.isdigit():
            try:
                stat = Path("/proc", entry, "stat").read_bytes()
            except OSError:  # the process has ended
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
    """Returns user and system CPU seconds, in ticks (10 ms) per process, including descendants that have ended."""
    stats = _stats()
    return sum(int(ticks) for pid in _tree(root, stats) for ticks in stats[pid][_UTIME : _CSTIME + 1]) / _TICKS


def largest_resident_mb(root: int) -> float:
    """Returns the resident memory of the process that has the most, in MB."""
    pages = [int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) for pid in _tree(root, _stats())]
    return max(pages) * _PAGE / 2**20
