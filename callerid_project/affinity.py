"""Each worker on a CPU of its own.

Python runs one thread of a process at a time. Where each of a worker's threads may run on any CPU, whoever is next has
to be woken on another one, with cold caches: on two CPUs that made a search half as dear again (docs/performance.md).
"""

import errno
import itertools
import os
import random
import socket

#: What this process has taken: given back when it ends, however it does.
_taken: list[socket.socket] = []


def take_cpu(name: str = "callerid-worker") -> int | None:
    """Keep this process, from its main thread on, to the CPU that the fewest processes of this machine have taken under
    this name; the CPU's number. None where the system knows no such thing, or does not allow it."""
    if not hasattr(os, "sched_setaffinity"):
        return None
    cpus = sorted(os.sched_getaffinity(0))
    random.shuffle(cpus)  # workers in other containers are not seen
    for turn, cpu in itertools.product(range(1000), cpus):
        # An abstract socket's name (unix(7)) is free again when its process is gone.
        taken = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            taken.bind(f"\0{name}/{cpu}/{turn}")
            os.sched_setaffinity(0, {cpu})
        except OSError as error:
            taken.close()
            if error.errno == errno.EADDRINUSE:
                continue
            return None
        _taken.append(taken)
        return cpu
    return None
