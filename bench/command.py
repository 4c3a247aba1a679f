"""What the bench's commands share: nobody's settings, an orderly end, and a sentence where it was no good one."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable

from bench.contenders import Failed
from tests import plugin
from tests.servers import Unavailable


def told(measure: Callable[[], str]) -> str:
    """What `measure` returns. Exits with a sentence when it cannot; whatever it started has been stopped then."""
    for name in plugin.our_settings():  # a service's own are not the bench's
        os.environ.pop(name, None)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return measure()
    except (Failed, Unavailable) as error:
        sys.exit(f"Ended: {error}")
    except subprocess.CalledProcessError as error:
        sys.exit(f"Ended: {' '.join(map(str, error.cmd[:3]))} failed:\n{error.stderr}")
    except KeyboardInterrupt:
        sys.exit("Ended: interrupted.")
