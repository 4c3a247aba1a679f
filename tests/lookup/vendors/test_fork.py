"""A process that forks after it has called vendors: parent and child go on, each with connections of its own."""

import os
import subprocess
import sys
from collections.abc import Callable

from callerid_project.settings import BASE_DIR
from tests import upstream
from tests.lookup.vendors.searches import QUIET_FORK
from tests.mock_vendors import KEYS, PRESETS
from tests.upstream import Upstream, says

_FORKS = """
import gc, os, time, django
django.setup()
from lookup.answers import Found
from lookup.connectors import registry
from lookup.vendors import cache, event_loop

def ask(number):
    guard = registry.get_member("mock_a").guard
    lookup = guard.lookup(number, key=guard.key(number, ""), deadline=time.monotonic() + 20)
    assert isinstance(event_loop.run(lookup, 20).answer, Found)

ask("12025550100")
gc.collect()
cache.writer._task = "a write of the parent's"
cache.answers._lock.acquire()
child = os.fork()
if not child:
    gc.collect()
    ask("12025550101")
    assert cache.writer._task is None
    assert cache.answers.get(["none"]) == {}
    os._exit(0)
cache.answers._lock.release()
assert os.waitpid(child, 0)[1] == 0
ask("12025550102")
"""


def test_calls_go_on_in_both_processes_after_a_fork(vendor: Callable[..., Upstream]) -> None:
    server = vendor(says(upstream.GOOD_A))
    environment = {"PRESET_DIR": str(PRESETS), "SOURCE_A": "mock_a", "MOCK_A_BASE_URL": server.url, "REDIS_URL": ""}
    ran = subprocess.run(
        [sys.executable, *QUIET_FORK, "-c", _FORKS],
        cwd=BASE_DIR,
        env=os.environ | KEYS | environment,
        capture_output=True,
        timeout=60,
        check=False,
        text=True,
    )
    assert ran.stderr == ""
    assert ran.returncode == 0
    assert (len(server.heads), server.connections) == (3, 2)
