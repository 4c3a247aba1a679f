"""The entry point that the benchmark commands share."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable

from bench.targets import BenchError
from tests import plugin
from tests.servers import Unavailable


def run_or_exit(measure: Callable[[], str]) -> str:
    """Returns what `measure` returns, without the service's own environment variables.

    Exits with a message when it fails or is interrupted; by then all servers that it started have been stopped.
    """
    for name in plugin.our_settings():
        os.environ.pop(name, None)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return measure()
    except (BenchError, Unavailable) as error:
        sys.exit(f"Error: {error}")
    except subprocess.CalledProcessError as error:
        sys.exit(f"Error: {' '.join(map(str, error.cmd[:3]))} failed:\n{error.stderr}")
    except KeyboardInterrupt:
        sys.exit("Interrupted.")
