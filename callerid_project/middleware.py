"""Outermost: the request id, the headers of every answer, and one log line a request."""

import logging
import re
import secrets
import time
from collections.abc import Callable
from contextvars import ContextVar

from django.http import HttpRequest, HttpResponse

from callerid_project import proxies
from callerid_project.redaction import is_clean

log = logging.getLogger("callerid.request")

request_id: ContextVar[str] = ContextVar("request_id", default="-")
API = "/callerid/"
_WELL_FORMED = re.compile(r"[A-Za-z0-9._-]{1,64}")


def new_request_id() -> str:
    """32 hexadecimal digits: milliseconds since 1970, then chance, as UUIDv7 has them (RFC 9562). In the order of time,
    so that the ledger's index of them grows at its end and not all over."""
    return f"{time.time_ns() // 1_000_000:012x}{secrets.token_hex(10)}"


def request_id_for(sent: str) -> str:
    """The id that the caller has sent, or a new one where that is not well-formed, or would be masked in the log: log
    and ledger must have the same, and a phone number or a token must be in neither."""
    return sent if _WELL_FORMED.fullmatch(sent) and is_clean(sent) else new_request_id()


def is_api(request: HttpRequest) -> bool:
    return request.path_info.startswith(API)


class RequestMiddleware:
    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        started = time.perf_counter()
        request.request_id = request_id_for(request.META.get("HTTP_X_REQUEST_ID", ""))  # type: ignore[attr-defined]
        reset = request_id.set(request.request_id)  # type: ignore[attr-defined]
        try:
            proxies.monitor.observe(request)
            response = self._get_response(request)
            response.headers["X-Request-ID"] = request.request_id  # type: ignore[attr-defined]
            response.headers.setdefault("X-Content-Type-Options", "nosniff")
            response.headers.setdefault("Cache-Control", "no-store")
            facts = {
                "method": request.method if request.method in _METHODS else "-",
                "view": request.resolver_match.view_name if request.resolver_match else "-",
                "status": response.status_code,
                "ms": f"{(time.perf_counter() - started) * 1000:.1f}",
            }
            facts |= getattr(request, "log_facts", {})
            # A supervisor's probes would drown the rest.
            level = logging.DEBUG if facts["view"] in ("livez", "readyz") else logging.INFO
            log.log(level, " ".join(f"{name}={value}" for name, value in facts.items()))
            return response
        finally:
            request_id.reset(reset)


_METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
