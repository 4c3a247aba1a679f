"""The image's HEALTHCHECK: exits with an error unless /livez answers. Standard library only."""

import http.client
import os
import sys

# /livez checks the Host header like every other path.
host = (os.environ.get("ALLOWED_HOSTS") or "localhost").split(",")[0].strip().lstrip(".").replace("*", "localhost")
connection = http.client.HTTPConnection("127.0.0.1", int(os.environ.get("PORT") or 8000), timeout=4)
try:
    connection.request("GET", "/livez", headers={"Host": host})
    sys.exit(connection.getresponse().status != http.HTTPStatus.OK)
except (OSError, http.client.HTTPException) as error:
    sys.exit(f"/livez: {type(error).__name__}")
