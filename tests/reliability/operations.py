"""What the tests of reliability share: several instances, and an operator's process."""

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any, Self

from tests import plugin
from tests.service import Service


def serve_hosts(serve: Callable[..., Service], environment: Mapping[str, str], *, count: int = 2) -> list[Service]:
    """So many instances, with one database and one Redis."""
    shared = {**plugin.generated_keys(), "AUTH_FAILURE_RATE": "1000000/m", **environment}
    return [serve(**shared) for _ in range(count)]


class Operator:
    """Calls functions of operator_process.py in a process of its own, one at a time."""

    def __init__(self, service: Service) -> None:
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.reliability.operator_process"],
            cwd=plugin.ROOT,
            env={**service.env, "DJANGO_SETTINGS_MODULE": "callerid_project.settings"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def __call__(self, function: str, *arguments: Any) -> Any:
        """The result; {"refused": <class>} if the service's code refused it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._lock:
            self._process.stdin.write(json.dumps([function, *arguments]) + "\n")
            self._process.stdin.flush()
            return json.loads(self._process.stdout.readline())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self._process.kill()
        self._process.communicate()
