"""Processes of their own for work that a page starts."""

import os
import subprocess
import sys
from threading import Thread

from django.conf import settings


def start(command: str, *arguments: str) -> None:
    """Run a command of manage.py. A thread would take time of the interpreter from searches; the session of its own
    keeps Ctrl-C from it."""
    # A command has not the limits of a process that serves.
    environment = {name: value for name, value in os.environ.items() if name != "CALLERID_SERVING"}
    process = subprocess.Popen(
        [sys.executable, str(settings.BASE_DIR / "manage.py"), command, *arguments],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    Thread(target=process.wait, name=f"{command} {arguments[0]}", daemon=True).start()  # leaves no zombie
