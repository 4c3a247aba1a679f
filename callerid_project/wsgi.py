"""The WSGI application: Django, with two things settled before the first request."""

import io
import json
import logging
import os
import re
import sys
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, cast

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "callerid_project.settings")
os.environ["CALLERID_SERVING"] = "true"

from django.conf import settings
from django.core.cache import close_caches
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections, connections, reset_queries

django_application = get_wsgi_application()

# A request that ends gives its connections back, so the next one has nothing to close; statements are not logged; and
# no cache here has anything to close.
request_started.disconnect(close_old_connections)
request_started.disconnect(reset_queries)
request_finished.disconnect(close_caches)

from callerid_project import urls  # noqa: E402, F401  (or the first caller would wait for the import)
from callerid_project.admission import Admission, Overloaded  # noqa: E402
from callerid_project.errors import INTERNAL  # noqa: E402
from callerid_project.middleware import API, request_id_for  # noqa: E402
from callerid_project.security_policy import strictest  # noqa: E402
from lookup.search import SLOTS, members  # noqa: E402

for slot in SLOTS:
    members(slot)  # a mistake shows at start, not at the first search

log = logging.getLogger(__name__)

_UTF_8 = re.compile(r"""\s*charset\s*=\s*"?utf-?8"?\s*""", re.IGNORECASE)


#: Answered at once, however many requests run and wait.
PROBES = frozenset({"/livez", "/livez/", "/readyz", "/readyz/"})

admission = Admission(settings.THREADS, settings.MAX_QUEUED_REQUESTS, settings.QUEUE_TIMEOUT_S)


def application(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    if environ.get("PATH_INFO") in PROBES:
        return respond(environ, start_response)
    try:
        return cast(Iterable[bytes], admission.run(partial(respond, environ, start_response)))
    except Overloaded:
        return plain_error(
            environ, start_response, "503 Service Unavailable", "Service overloaded", [("Retry-After", "1")]
        )


def respond(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    environ["CONTENT_TYPE"] = harmless_content_type(environ.get("CONTENT_TYPE", ""))
    path = environ.get("PATH_INFO", "")
    if path not in PROBES:  # they read no body, and a thread that waits for one would be missing for other probes
        limit = settings.MAX_BODY_BYTES if path.startswith(API) else settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        measure_chunked_body(environ, limit)
    try:
        response: Any = django_application(environ, start_response)
        if response.streaming and not response.has_header("Content-Length"):
            connections.close_all()
            return Streamed(response)
        body = b"".join(response)  # a static file is streamed too, and its length is known
        response.close()
        return [body]
    except Exception:  # before any middleware, where Django has no answer of its own
        log.exception("unforeseen error")
        return plain_error(environ, start_response, "500 Internal Server Error", INTERNAL, [])


class Streamed:
    """An export: read and closed on the server's thread, at its client's speed, and so with connections of its own."""

    def __init__(self, response: Any) -> None:
        self._response = response

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._response)

    def close(self) -> None:
        self._response.close()
        connections.close_all()


def plain_error(
    environ: dict[str, Any], start_response: Any, status: str, detail: str, more: list[tuple[str, str]]
) -> Iterable[bytes]:
    """An error that Django has no part in, with the headers of any other."""
    headers = [("Content-Type", "application/json"), ("Cache-Control", "no-store")]
    headers += [("X-Content-Type-Options", "nosniff"), ("Content-Security-Policy", strictest())]
    headers += [("X-Request-ID", request_id_for(environ.get("HTTP_X_REQUEST_ID", ""))), *more]
    start_response(status, headers, sys.exc_info())
    return [json.dumps({"detail": detail}).encode()]


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
