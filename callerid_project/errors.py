"""The only table from exception to (status, detail), and the answers where no view was reached."""

import logging
from http import HTTPMethod
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import reverse
from django.views import csrf, defaults
from rest_framework import exceptions

from accounts import brake, credits, idempotency
from lookup import numbers, parsers, search

log = logging.getLogger(__name__)

INTERNAL = "Internal server error"
#: Exception → status and detail. `{}` is the exception's own text, where that is ours and stable.
TABLE: dict[type[Exception], tuple[int, str]] = {
    parsers.BodyTooLarge: (413, "Request body too large"),
    exceptions.AuthenticationFailed: (401, "Invalid or missing token"),
    brake.TooManyAttempts: (429, "Rate limit exceeded"),
    exceptions.Throttled: (429, "Rate limit exceeded"),
    numbers.InvalidNumber: (400, "Invalid phone number ({})"),
    idempotency.InvalidKey: (400, "Invalid Idempotency-Key"),
    idempotency.KeyReused: (400, "Idempotency-Key was used with another query"),
    idempotency.StillInFlight: (500, INTERNAL),
    credits.NoCreditsLeft: (403, "No credits remaining"),
    search.AllSourcesFailed: (500, INTERNAL),
}


def exception_handler(error: Exception, context: dict[str, Any]) -> HttpResponse:
    """DRF's EXCEPTION_HANDLER: every error of a view, unforeseen ones included, as `{"detail": "<sentence>"}`, whatever
    the view's renderer makes of its other answers."""
    if type(error) in TABLE:
        status, detail = TABLE[type(error)]
        detail = detail.format(error)
    elif isinstance(error, exceptions.MethodNotAllowed) and context["request"].method not in HTTPMethod.__members__:
        # DRF's sentence would quote what the client sent.
        status, detail = error.status_code, "Method not allowed."
    elif isinstance(error, exceptions.APIException):
        status, detail = error.status_code, str(error.detail)
    else:
        log.error("unforeseen error", exc_info=error)
        status, detail = 500, INTERNAL
    headers = {}
    if wait_s := getattr(error, "wait_s", None) or getattr(error, "wait", None):
        headers["Retry-After"] = str(int(wait_s))
    if challenge := getattr(error, "auth_header", None):
        headers["WWW-Authenticate"] = challenge
    return JsonResponse({"detail": detail}, status=status, headers=headers)


def in_admin(request: HttpRequest) -> bool:
    """Whether the admin's index is at or above this path: there an error is a page."""
    return request.path.startswith(reverse("admin:index"))


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """Django's CSRF_FAILURE_VIEW."""
    if in_admin(request):
        return csrf.csrf_failure(request, reason)
    return JsonResponse({"detail": "Forbidden"}, status=403)


def _handler(status: int, detail: str, admin_page: Any) -> Any:
    """One of Django's handlerNNN: JSON, but a page within the admin."""

    def handler(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
        if in_admin(request):
            return admin_page(request, exception) if exception is not None else admin_page(request)
        return JsonResponse({"detail": detail}, status=status)

    return handler


def body_too_large(request: HttpRequest) -> HttpResponse:
    """The answer of BodyLimitMiddleware."""
    status, detail = TABLE[parsers.BodyTooLarge]
    if in_admin(request):
        page = defaults.ERROR_PAGE_TEMPLATE % {"title": f"{detail} ({status})", "details": ""}
        return HttpResponse(page, status=status)
    return JsonResponse({"detail": detail}, status=status)


bad_request = _handler(400, "Bad request", defaults.bad_request)
permission_denied = _handler(403, "Forbidden", defaults.permission_denied)
not_found = _handler(404, str(exceptions.NotFound.default_detail), defaults.page_not_found)
server_error = _handler(500, INTERNAL, defaults.server_error)
