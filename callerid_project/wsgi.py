"""The WSGI application: Django behind admission control, and the corrections to requests that come before Django."""

import json
import logging
import os
import re
import sys
import time
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

from callerid_project import error_reports
from core import tracing

django_application = get_wsgi_application()
error_reports.configure()
tracing.configure()

# Requests release their connections at the end, so the next one has none to close; statements are not logged; and no
# cache here has anything to close.
request_started.disconnect(close_old_connections)
request_started.disconnect(reset_queries)
request_finished.disconnect(close_caches)

from callerid_project import lifecycle, urls  # noqa: E402, F401  (otherwise the first request imports urls)
from callerid_project.admission import QUEUED, Admission, Overloaded  # noqa: E402
from callerid_project.errors import INTERNAL  # noqa: E402
from callerid_project.middleware import HEALTH_CHECKS, request_id_for, strict_policy  # noqa: E402
from core.metrics import sampler  # noqa: E402
from lookup.search import SLOTS, members  # noqa: E402

for slot in SLOTS:
    members(slot)  # raises ImproperlyConfigured now, not at the first search

log = logging.getLogger(__name__)

_UTF_8 = re.compile(r"""\s*charset\s*=\s*"?utf-?8"?\s*""", re.IGNORECASE)

admission = Admission(settings.THREADS, settings.MAX_QUEUED_REQUESTS, settings.QUEUE_TIMEOUT_S)
sampler(lambda: QUEUED.set(admission.queued))

log.info(
    "worker started: pid=%d profile=%s redis=%s threads=%d source_a=%s source_b=%s",
    os.getpid(),
    "embedded" if settings.EMBEDDED else "production",
    "yes" if settings.REDIS_URL else "no",
    settings.THREADS,
    settings.SOURCE_A,
    settings.SOURCE_B,
)


def application(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    environ["callerid.received_at"] = time.perf_counter()
    if lifecycle.process.closes_connections:
        start_response = closing_connection(start_response)
    if environ.get("PATH_INFO") in HEALTH_CHECKS:
        return respond(environ, start_response)
    try:
        return cast(Iterable[bytes], admission.run(partial(respond, environ, start_response)))
    except Overloaded:
        retry = [("Retry-After", "1")]
        return plain_error(environ, start_response, "503 Service Unavailable", "Service overloaded", retry)


def closing_connection(start_response: Any) -> Any:
    """`start_response` for a response after which the HTTP server closes the connection."""

    def start(status: str, headers: list[tuple[str, str]], *more: Any) -> Any:
        return start_response(status, [*headers, ("Connection", "close")], *more)

    return start


def respond(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
    environ["CONTENT_TYPE"] = safe_content_type(environ.get("CONTENT_TYPE", ""))
    try:
        response: Any = django_application(environ, start_response)
        if response.streaming and not response.has_header("Content-Length"):
            connections.close_all()
            return Streamed(response)
        body = b"".join(response)  # static files are streamed too, but their length is known
        response.close()
        return [body]
    except Exception:  # raised before any middleware, where Django has no error response
        log.exception("unhandled error")
        return plain_error(environ, start_response, "500 Internal Server Error", INTERNAL, [])


class Streamed:
    """An export. The server's own thread reads it, at its client's speed, so it has database connections of its own."""

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
    """An error response without Django, with the headers of all others."""
    headers = [("Content-Type", "application/json"), ("Cache-Control", "no-store")]
    headers += [("X-Content-Type-Options", "nosniff"), ("Content-Security-Policy", strict_policy())]
    headers += [("X-Request-ID", request_id_for(environ.get("HTTP_X_REQUEST_ID", ""))), *more]
    start_response(status, headers, sys.exc_info())
    return [json.dumps({"detail": detail}).encode()]


def safe_content_type(value: str) -> str:
    """`value` without parameters that harm Django: decoding RFC 2231's `name*=` can raise, and looking up a charset
    makes Python's codecs remember each unknown name forever."""
    if len(value) > 256:
        return "application/octet-stream"
    media_type, _, parameters = value.partition(";")
    if "*" in parameters or ("charset" in parameters.lower() and not _UTF_8.fullmatch(parameters)):
        return f"{media_type}; charset=unsupported"
    return value
