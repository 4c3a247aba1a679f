"""Prints where the service can be reached and an example request, as soon as it answers."""

import http.client
import json
import threading
import time
from contextlib import closing, suppress
from multiprocessing.synchronize import Lock
from pathlib import Path

from django.conf import settings
from django.http.request import validate_host

from lookup.imports.sample_data import DEMO_NUMBER

TIMEOUT_S = 60
PAUSE_S = 0.1


def announce_once(printed: Lock) -> None:
    """Print the message from a thread of this worker, unless another worker that shares `printed` has."""
    threading.Thread(target=_announce, args=(printed,), name="announce", daemon=True).start()


def _announce(printed: Lock) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        time.sleep(PAUSE_S)
        connection = http.client.HTTPConnection(settings.URL_HOST.strip("[]"), settings.PORT, timeout=5)
        try:
            with closing(connection):
                connection.request("GET", "/livez")
                connection.getresponse()
        except (OSError, http.client.HTTPException):
            continue
        if printed.acquire(block=False):
            print(message(), flush=True)
        return


def demo_token_file() -> Path:
    """The file in which quickstart stores the demo token on the embedded profile."""
    return settings.DATA_DIR / "demo_token"


def message() -> str:
    base = f"http://{settings.URL_HOST}:{settings.PORT}"
    api_key = None
    if settings.EMBEDDED:
        with suppress(OSError, ValueError):
            api_key = demo_token_file().read_text(encoding="ascii").strip() or None
    served_as = host_header = ""
    if settings.ALLOWED_HOSTS and not validate_host(settings.URL_HOST, settings.ALLOWED_HOSTS):
        name = settings.ALLOWED_HOSTS[0].lstrip(".")
        served_as, host_header = f" (as {name})", f" -H 'Host: {name}'"
    body = json.dumps({"api_key": api_key or "<API_KEY>", "query": DEMO_NUMBER})
    lines = [
        "",
        f"Caller ID is running at {base}{served_as}",
        f"  try it {base}/" if settings.EMBEDDED else f"  home   {base}/",
        f"  admin  {base}/{settings.ADMIN_PATH}/",
        f"  docs   {base}/docs",
        "",
        "Example request:",
        "",
        f"curl -s {base}/callerid/search{host_header} -H 'Content-Type: application/json' -d '{body}'",
        "",
    ]
    if api_key is None:
        lines += [
            "Replace <API_KEY> with the output of `./run manage create_token NAME --credits 100 --quiet`.",
            "Create the first admin user with `./run manage createsuperuser`.",
            "",
        ]
    return "\n".join(lines)
