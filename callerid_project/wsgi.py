"""The WSGI application: Django, with two things settled before the first request."""

import io
import json
import logging
import os
import re
import sys
from collections.abc import Iterable
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "callerid_project.settings")
# While serving, one statement may take a part of a search's deadline, and one that waits for a lock not for ever.
os.environ.setdefault("DB_STATEMENT_TIMEOUT_MS", "500")
os.environ.setdefault("SQLITE_TIMEOUT_S", "5")

from django.conf import settings
from django.core.cache import close_caches
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections, reset_queries
from django.db.backends.signals import connection_created

from accounts.turns import close_with_this_thread

django_application = get_wsgi_application()

# A request that ends gives its connections back, so the next one has nothing to close; statements are not logged; and
# no cache here has anything to close.
request_started.disconnect(close_old_connections)
request_started.disconnect(reset_queries)
request_finished.disconnect(close_caches)
# The server ends threads that have been idle for long.
connection_created.connect(close_with_this_thread)

from callerid_project import urls  # noqa: E402, F401  (or the first caller would wait for the import)
from callerid_project.errors import INTERNAL  # noqa: E402
from callerid_project.middleware import API, new_request_id  # noqa: E402
from callerid_project.security_policy import strictest  # noqa: E402
from lookup.search import SLOTS, members  # noqa: E402

for slot in SLOTS:
    members(slot)  # a mistake shows at start, not at the first search

log = logging.getLogger(__name__)

_UTF_8 = re.compile(r"""\s*charset\s*=\s*"?utf-?8"?\s*""", re.IGNORECASE)


def application(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    environ["CONTENT_TYPE"] = harmless_content_type(environ.get("CONTENT_TYPE", ""))
    in_api = environ.get("PATH_INFO", "").startswith(API)
    measure_chunked_body(environ, settings.MAX_BODY_BYTES if in_api else settings.DATA_UPLOAD_MAX_MEMORY_SIZE)
    try:
        return django_application(environ, start_response)
    except Exception:  # before any middleware, where Django has no answer of its own
        log.exception("unforeseen error")
        headers = [("Content-Type", "application/json"), ("Cache-Control", "no-store")]
        headers += [("X-Content-Type-Options", "nosniff"), ("X-Request-ID", new_request_id())]
        headers += [("Content-Security-Policy", strictest())]
        start_response("500 Internal Server Error", headers, sys.exc_info())
        return [json.dumps({"detail": INTERNAL}).encode()]


def harmless_content_type(value: str) -> str:
    """`value`, but for parameters that Django must not see: it decodes RFC 2231's (`name*=`), which can raise, and
    looks every charset up among Python's codecs, which keep each unknown name for ever."""
    if len(value) > 256:
        return "application/octet-stream"
    media_type, _, parameters = value.partition(";")
    if "*" in parameters or ("charset" in parameters.lower() and not _UTF_8.fullmatch(parameters)):
        return f"{media_type}; charset=unsupported"
    return value


def measure_chunked_body(environ: dict[str, Any], limit: int) -> None:
    """Give a chunked body its Content-Length, for Django takes one without to be empty.

    Reads at most `limit` + 1 bytes into memory, so that whoever applies the limit sees that it is too large. A server
    that has taken the chunks apart says so by `wsgi.input_terminated`.
    """
    if environ.get("wsgi.input_terminated") and environ.get("HTTP_TRANSFER_ENCODING", "").lower() == "chunked":
        body = environ["wsgi.input"].read(limit + 1)
        environ |= {"wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": str(len(body))}
