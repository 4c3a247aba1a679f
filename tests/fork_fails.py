"""The service on a system that refuses to start the second process: `python -m tests.fork_fails`. A reload waits only
6 s for a new worker."""

import errno
import os

from callerid_project import supervisor
from callerid_project.serve import main

forks = 0
fork = os.fork


def refuse_the_second() -> int:
    global forks
    forks += 1
    if forks == 2:
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
    return fork()


if __name__ == "__main__":
    os.fork = refuse_the_second
    supervisor.START_TIMEOUT_S = 6
    main()
