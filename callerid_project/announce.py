"""Where the service can be reached, and an example request."""

import json
from contextlib import suppress
from pathlib import Path

from django.conf import settings
from django.http.request import validate_host

from core.commands import command_line
from phonebook.imports.sample_data import DEMO_NUMBER


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
            f"Replace <API_KEY> with the output of `{command_line('create_token NAME --credits 100 --quiet')}`.",
            f"Create the first admin user with `{command_line('createsuperuser')}`.",
            "",
        ]
    return "\n".join(lines)
