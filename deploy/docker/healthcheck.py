"""The image's HEALTHCHECK: exits with an error unless /livez answers. Standard library only."""

import http.client
import os
import sys

from callerid_project import hosts

listening = os.environ.get("HOST", "").strip("[]")
address = "127.0.0.1" if listening in ("", "0.0.0.0", "::") else listening  # noqa: S104
# /livez checks the Host header like every other path.
accepted = hosts.read(os.environ.get("ALLOWED_HOSTS", "")) or ["localhost"]
host = accepted[0].lstrip(".").replace("*", "localhost")
connection = http.client.HTTPConnection(address, int(os.environ.get("PORT") or 8000), timeout=4)
try:
    connection.request("GET", "/livez", headers={"Host": host})
    sys.exit(connection.getresponse().status != http.HTTPStatus.OK)
except (OSError, http.client.HTTPException) as error:
    sys.exit(f"/livez: {type(error).__name__}")
