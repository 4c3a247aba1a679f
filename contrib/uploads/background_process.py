"""Processes of their own for work that a page starts."""

import os
import subprocess
import sys
from collections.abc import Callable
from threading import Thread

from django.conf import settings
from django.db import connections


def start(command: str, *arguments: str, on_end: Callable[[], object] = lambda: None) -> None:
    """Run a command of manage.py. A thread would take time of the interpreter from searches; the session of its own
    keeps Ctrl-C from it. `on_end` is called in a thread."""
    # A command has not the limits of a process that serves.
    environment = {name: value for name, value in os.environ.items() if name != "CALLERID_SERVING"}
    process = subprocess.Popen(
        [sys.executable, str(settings.BASE_DIR / "manage.py"), command, *arguments],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )

    def wait() -> None:
        process.wait()  # leaves no zombie
        try:
            on_end()
        finally:
            connections.close_all()

    Thread(target=wait, name=f"{command} {arguments[0]}", daemon=True).start()
