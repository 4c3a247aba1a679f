"""Our middleware: request id, request log, Content-Security-Policy, and what only HTML pages need."""

import io
import logging
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from http import HTTPMethod
from typing import Any

from csp.constants import HEADER, SELF, UNSAFE_EVAL, UNSAFE_INLINE
from csp.middleware import CSPMiddleware, PolicyParts
from csp.utils import build_policy
from django.conf import settings
from django.contrib.auth import SESSION_KEY
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.middleware.clickjacking import XFrameOptionsMiddleware
from django.middleware.security import SecurityMiddleware

from callerid_project.errors import field_refused, in_admin, logged_out
from callerid_project.logging import REQUEST_ID, Facts, request_id
from core import tracing
from core.client_address import client_address
from core.text import MAX_FIELD
from monitoring import http_metrics
from monitoring.health import forwarding

access_log = logging.getLogger("callerid.request")

#: PostgreSQL stores no text with it, and browsers do not send it.
NUL = "\0"
#: Backslashes in the cookies of one request. Python before 3.11.10 and 3.12.6 decodes them in quadratic time
#: (CVE-2024-7592); no cookie of the console has one.
MAX_COOKIE_ESCAPES = 256
#: NUL as cookies write it. PostgreSQL would refuse it as the key of a session.
NUL_IN_COOKIE = "\\000"
#: Of every response that does not set them itself.
CONSTANT_HEADERS = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}
#: Every page of the admin needs these because of django-unfold: Alpine.js compiles the expressions in its attributes,
#: htmx writes a style element.
ADMIN_POLICY = {
    "script-src": [SELF, UNSAFE_EVAL],
    "style-src": [SELF, UNSAFE_INLINE],
    "img-src": [SELF, "data:"],
    "font-src": [SELF],
    "connect-src": [SELF],
    "form-action": [SELF],
}


def request_id_for(sent: str) -> str:
    """The id that the client sent, or a new one if that is malformed or may hold a phone number or a token: log and
    ledger show the same id, and neither may hold them."""
    return sent if REQUEST_ID.fullmatch(sent) else _new_request_id()


def _new_request_id() -> str:
    """32 hexadecimal digits, in groups of 6 so that it never holds 7 decimal digits in a row: milliseconds since 1970,
    then random, like UUIDv7 (RFC 9562). Ordered by time, so that inserts into the ledger's index of them go to its
    end."""
    digits = f"{time.time_ns() // 1_000_000:012x}{secrets.token_hex(10)}"
    return "-".join(digits[at : at + 6] for at in range(0, 32, 6))


@contextmanager
def observe(request: HttpRequest) -> Iterator[Callable[[HttpResponse], HttpResponse]]:
    """Give `request` its id, and yield a function that adds the id to the response, logs the request in one line and
    counts it."""
    started = time.perf_counter()
    received = request.META.setdefault("callerid.received_at", started)  # set by asgi.py
    request.request_id = request_id_for(request.META.get("HTTP_X_REQUEST_ID", ""))  # type: ignore[attr-defined]
    reset = request_id.set(request.request_id)  # type: ignore[attr-defined]

    def finish(response: HttpResponse) -> HttpResponse:
        view_name = request.resolver_match.view_name if request.resolver_match else ""
        if span:
            span.update_name(view_name or "no view")
            span.set_attribute("http.response.status_code", response.status_code)
        response.headers["X-Request-ID"] = request.request_id  # type: ignore[attr-defined]
        log_facts = getattr(request, "log_facts", {})
        duration_s = time.perf_counter() - received
        http_metrics.observe_request(view_name, response.status_code, duration_s, in_test_mode="test" in log_facts)
        facts = Facts(
            {
                "method": request.method if request.method in HTTPMethod.__members__ else "-",
                "view": view_name or "-",
                "status": response.status_code,
                "ms": round(duration_s * 1000, 1),
                "client": client_address(request),
                **log_facts,
            }
        )
        # These come every few seconds.
        level = logging.DEBUG if view_name in ("livez", "readyz", "metrics") else logging.INFO
        access_log.log(level, facts)
        return response

    cookie = request.META.get("HTTP_COOKIE", "")
    if cookie.count("\\") > MAX_COOKIE_ESCAPES or NUL_IN_COOKIE in cookie:
        del request.META["HTTP_COOKIE"]  # before anything parses it
    try:
        forwarding.monitor.observe(request)
        with tracing.span("request", {"traceparent": request.META.get("HTTP_TRACEPARENT", "")}) as span:
            yield finish
    finally:
        request_id.reset(reset)


class RequestMiddleware:
    """Outermost: `observe`, for what Django's middleware answers."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        with observe(request) as finish:
            response = finish(self._get_response(request))
        for name, value in CONSTANT_HEADERS.items():
            response.headers.setdefault(name, value)
        return response


def _unused(request: HttpRequest) -> HttpResponse:
    raise AssertionError


_security, _framing = SecurityMiddleware(_unused), XFrameOptionsMiddleware(_unused)


@lru_cache(maxsize=2)
def loop_headers(is_secure: bool) -> tuple[tuple[bytes, bytes], ...]:
    """What every response of the event loop has: the headers that the middleware here and Django's adds to others."""
    scope: dict[str, Any] = {
        "type": "http",
        "method": "GET",
        "path": "/",
        "scheme": "https" if is_secure else "http",
        "headers": [],
    }
    request, response = ASGIRequest(scope, io.BytesIO()), HttpResponse(headers=CONSTANT_HEADERS)
    del response.headers["Content-Type"]
    response.headers[HEADER] = build_policy()  # of settings.CONTENT_SECURITY_POLICY
    _framing.process_response(request, _security.process_response(request, response))
    return encoded(response)


def encoded(response: HttpResponseBase) -> tuple[tuple[bytes, bytes], ...]:
    """The headers as ASGI sends them."""
    return tuple((name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in response.headers.items())


class PolicyMiddleware(CSPMiddleware):
    """The Content-Security-Policy. Pages outside the console relax it; everything below the admin's index, its error
    pages too, gets ADMIN_POLICY."""

    def get_policy_parts(
        self, request: HttpRequest, response: HttpResponseBase, report_only: bool = False
    ) -> PolicyParts:
        parts = super().get_policy_parts(request, response, report_only)
        if not report_only and in_admin(request):
            parts.replace = ADMIN_POLICY
        return parts


class BodyLimitMiddleware:
    """Responds 403 to a body of more than MAX_BODY_BYTES for the console without a login, before the CSRF check parses
    it. What other paths are sent is shorter (asgi.py)."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        length = int(request.META.get("CONTENT_LENGTH") or 0)
        if in_admin(request) and length > settings.MAX_BODY_BYTES and SESSION_KEY not in request.session:
            return logged_out(request)
        return self._get_response(request)


class FieldLimitMiddleware:
    """Responds 400 to a parameter or form field of more than MAX_FIELD characters, or with a NUL, before a view looks
    at it.

    What views, forms and Django do with a text may take quadratic time: Unicode normalization, a regular expression, a
    query with a condition for each word. Runs after the CSRF check, which has parsed the body or refused the request.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self._get_response(request)

    def process_view(self, request: HttpRequest, *view: Any) -> HttpResponse | None:
        fields = [*request.GET.lists(), *request.POST.lists()]
        refused = any(len(text) > MAX_FIELD or NUL in text for name, values in fields for text in (name, *values))
        return field_refused(request) if refused else None
