"""Says where the service answers and what to ask it, as soon as it does."""

import http.client
import json
import os
import threading
import time
from pathlib import Path

WAIT_S = 60
PAUSE_S = 0.1
# lookup.datasets.samples.DEMO_NUMBER, which Django would have to be loaded for.
DEMO_NUMBER = "493023125555"


def reachable(host: str) -> str:
    """`host` as a URL on this machine has it: a wildcard is not an address one can ask."""
    if host in ("0.0.0.0", "::", "[::]"):  # noqa: S104  (compared, not listened on)
        return "127.0.0.1"
    return f"[{host}]" if ":" in host else host


def in_background(host: str, port: int) -> None:
    """Announce from a thread of the server's main process, which has nothing to do while its workers start."""
    threading.Thread(target=_announce, args=(host, port), daemon=True).start()


def _announce(host: str, port: int) -> None:
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        # Sleep comes first: the workers are forked in these moments, and this thread must hold no lock then.
        time.sleep(PAUSE_S)
        connection = http.client.HTTPConnection(reachable(host).strip("[]"), port, timeout=5)
        try:
            connection.request("GET", "/livez")
            connection.getresponse()
        except (OSError, http.client.HTTPException):
            continue
        finally:
            connection.close()
        print(message(host, port, demo_key()), flush=True)
        return


def embedded() -> bool:
    """settings.EMBEDDED, which Django would have to be loaded for."""
    return not os.environ.get("DATABASE_URL", "").strip()


def demo_key() -> str | None:
    """The demo token that quickstart keeps on the embedded profile."""
    if not embedded():
        return None
    default = Path(__file__).resolve().parent.parent / "var"
    data_dir = Path(os.environ.get("CALLERID_DATA_DIR") or default).expanduser()
    try:
        return (data_dir / "demo_token").read_text(encoding="ascii").strip() or None
    except (OSError, ValueError):
        return None


def message(host: str, port: int, api_key: str | None) -> str:
    base = f"http://{reachable(host)}:{port}"
    body = json.dumps({"api_key": api_key or "<API_KEY>", "query": DEMO_NUMBER})
    # The service answers only to its own names: where the address is none of them, the curl has to say one.
    named = [name.strip() for name in os.environ.get("ALLOWED_HOSTS", "").split(",") if name.strip(" .*")]
    admin_path = (os.environ.get("ADMIN_PATH", "").strip() or "admin").strip("/")
    host_header = f" -H 'Host: {named[0].lstrip('.')}'" if named and reachable(host) not in named else ""
    lines = [
        "",
        f"Caller identification answers at {base}" + (f" (as {named[0].lstrip('.')})" if host_header else ""),
        f"  try it {base}/" if embedded() else f"  home   {base}/",
        f"  admin  {base}/{admin_path}/",
        f"  docs   {base}/docs",
        "",
        "Ask it who is calling:",
        "",
        f"curl -s {base}/callerid/search{host_header} -H 'Content-Type: application/json' -d '{body}'",
        "",
    ]
    if api_key is None:
        lines += [
            "<API_KEY> is what `./run manage create_token NAME --credits 100` prints, once;",
            "a first user of the admin is made by `./run manage createsuperuser`.",
            "",
        ]
    return "\n".join(lines)
