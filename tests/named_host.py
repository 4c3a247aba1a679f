"""The service on a host of another name: `python -m tests.named_host NAME`. Needs root, for a namespace of its own."""

import ctypes
import os
import socket
import sys

from callerid_project.serve import main

CLONE_NEWUTS = 0x04000000

if __name__ == "__main__":
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWUTS):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    socket.sethostname(sys.argv.pop())
    main()
