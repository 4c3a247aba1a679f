"""The only mapping of the API's exceptions to responses, and the responses to requests that reach no view."""

import logging
import re
import sys
from collections.abc import Callable
from http import HTTPMethod
from typing import Any, cast

from csp.decorators import csp_replace
from django.conf import settings
from django.contrib import admin
from django.core.exceptions import DisallowedHost
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.urls import reverse
from django.views import defaults
from rest_framework import exceptions

from accounts import charging, idempotency
from core import admission, attempt_limits, commits, numbers, pages, request_body
from core.database_errors import OutOfTime, concerns_all_searches, describe
from lookup import parsers, search

log = logging.getLogger(__name__)

INTERNAL, OVERLOADED = "Internal server error", "Service overloaded"
#: Exception → status, detail and outcome (accounts.request_statistics.OUTCOMES). `{}` is replaced by the exception's
#: own text, where that is ours and stable.
TABLE: dict[type[Exception], tuple[int, str, str]] = {
    request_body.BodyTooLarge: (413, "Request body too large", "invalid"),
    request_body.IncompleteBody: (400, parsers.MALFORMED, "invalid"),
    exceptions.AuthenticationFailed: (401, "Invalid or missing token", "unauthorized"),
    attempt_limits.TooManyAttempts: (429, "Rate limit exceeded", "unauthorized"),
    exceptions.Throttled: (429, "Rate limit exceeded", "rate_limited"),
    numbers.InvalidNumber: (400, "Invalid phone number ({})", "invalid"),
    idempotency.InvalidKey: (400, "Invalid Idempotency-Key", "invalid"),
    idempotency.KeyReused: (400, "Idempotency-Key was used with another query", "invalid"),
    idempotency.StillInFlight: (500, INTERNAL, "failed"),
    charging.NoCreditsLeft: (403, "No credits remaining", "no_credits"),
    search.BothSlotsFailed: (500, INTERNAL, "failed"),
    admission.Overloaded: (503, OVERLOADED, "failed"),
    OutOfTime: (503, OVERLOADED, "failed"),
    commits.CommitsSuspended: (503, OVERLOADED, "failed"),
}


def _unknown_method(request: Any) -> bool:
    return request.META["REQUEST_METHOD"] not in HTTPMethod.__members__


def exception_handler(error: Exception, context: dict[str, Any]) -> HttpResponse:
    """DRF's EXCEPTION_HANDLER: every exception of a view, including unexpected ones, as `{"detail": "<sentence>"}`,
    whatever the view's renderer. Sets the view's `outcome`."""
    outcome = "invalid"
    if type(error) in TABLE:
        status, detail, outcome = TABLE[type(error)]
        detail = detail.format(error)
    elif isinstance(error, exceptions.MethodNotAllowed) and _unknown_method(context["request"]):
        # DRF's sentence would quote what the client sent.
        status, detail = error.status_code, "Method not allowed."
    elif isinstance(error, exceptions.APIException):
        status, detail = error.status_code, str(error.detail)
    else:
        if concerns_all_searches(error):  # a traceback of each search would say nothing more
            log.error("the database failed: %s", describe(error))
        else:
            log.error("unhandled error", exc_info=error)
        status, detail, outcome = 500, INTERNAL, "failed"
    context["view"].outcome = outcome
    headers = {}
    if wait_s := getattr(error, "wait_s", None) or getattr(error, "wait", None):
        headers["Retry-After"] = str(int(wait_s))
    if challenge := getattr(error, "auth_header", None):
        headers["WWW-Authenticate"] = challenge
    return JsonResponse({"detail": detail}, status=status, headers=headers)


def overloaded() -> HttpResponse:
    """The response to a request that has not begun, because too many others run and wait."""
    return JsonResponse({"detail": OVERLOADED}, status=503, headers={"Retry-After": str(admission.Overloaded.wait_s)})


def not_served() -> HttpResponse:
    """The response to a request for what this instance does not answer (SERVE)."""
    return JsonResponse({"detail": str(exceptions.NotFound.default_detail)}, status=404)


def in_admin(request: HttpRequest) -> bool:
    """Whether the path is the admin's index or below it: errors are HTML pages there."""
    return request.path.startswith(reverse("admin:index"))


def _plain_page(status: int, title: str, text: str) -> Callable[..., HttpResponse]:
    """A page outside the console, with links that lead back. It reads nothing from the database."""

    @csp_replace(pages.POLICY)
    def page(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        console = (reverse("admin:index"), "Console")
        context = {
            "title": title,
            "text": text,
            "links": [console] if in_admin(request) else [(reverse("home"), "Home"), console],
            "request_id": getattr(request, "request_id", "") if status == 500 else "",
        }
        return HttpResponse(render_to_string("callerid/error.html", context), status=status)

    return cast(Callable[..., HttpResponse], page)


def _handler(
    status: int,
    detail: str,
    admin_page: Callable[..., HttpResponse],
    public_page: Callable[..., HttpResponse] | None = None,
) -> Callable[..., HttpResponse]:
    """A view of Django's for an error: JSON, but on an instance that has pages `admin_page` within the admin, and
    elsewhere `public_page`, if there is one, for browsers."""

    def handler(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if settings.SERVE != "search":
            if in_admin(request):
                return admin_page(request, *args, **kwargs)
            if public_page is not None and pages.asks_for_html(request):
                return public_page(request)
        return JsonResponse({"detail": detail}, status=status)

    return handler


def _console_page(
    status: int, title: str, text: str, plain_page: Callable[..., HttpResponse]
) -> Callable[..., HttpResponse]:
    """A page of the console with its menu for those who may open the console, and `plain_page` for all others."""

    def page(request: HttpRequest, exception: Exception | None = None) -> HttpResponse:
        if not admin.site.has_permission(request):
            return plain_page(request, exception)
        context = {**admin.site.each_context(request), "title": title, "text": text}
        return render(request, "admin/error.html", context, status=status)

    return page


def _short_page(status: int, title: str) -> Callable[..., HttpResponse]:
    """Django's page for errors that people hardly meet."""

    def page(request: HttpRequest) -> HttpResponse:
        text = defaults.ERROR_PAGE_TEMPLATE % {"title": f"{title} ({status})", "details": ""}
        return HttpResponse(text, status=status)

    return page


_LOGGED_HOST = re.compile(r"[A-Za-z0-9.:_\[\]-]{1,100}")
_form_expired = _plain_page(
    403,
    "This form has expired",
    "Nothing was changed. Go back, reload the page and submit the form again. If it fails again, allow cookies for "
    "this site in your browser.",
)
#: Of the console, to a request that is read only for those who are logged in.
logged_out = _plain_page(
    403, "You are logged out", "Nothing was changed. Log in, then submit the form or upload the file again."
)
_csrf_failure = _handler(403, "Forbidden", _form_expired)
_bad_request = incomplete_body = _handler(400, "Bad request", defaults.bad_request)


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """CSRF_FAILURE_VIEW. The log line gets the reason, without the URL that the client sent, and the scheme: behind a
    proxy that sets no `X-Forwarded-Proto`, a form of an https page seems to come from elsewhere."""
    sentence = reason.partition(" - ")[0].rstrip(".")
    request.log_facts = {"csrf": sentence, "scheme": request.scheme}  # type: ignore[attr-defined]
    return _csrf_failure(request, reason)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """handler400. The log line gets a refused host: the one that the proxy sent, if that is wrong."""
    if isinstance(exception, DisallowedHost):
        host = request.META.get("HTTP_HOST", "(none)")
        refused = host if host == "(none)" or _LOGGED_HOST.fullmatch(host) else "(malformed)"
        request.log_facts = {"refused_host": refused}  # type: ignore[attr-defined]
    return _bad_request(request, exception)


body_too_large = _handler(413, "Request body too large", _short_page(413, "Request body too large"))
unsupported_media_type = _handler(415, parsers.UNSUPPORTED, _short_page(415, "Unsupported media type"))
field_refused = _handler(
    400,
    "Bad request",
    _console_page(
        400,
        "Text not accepted",
        "A field has more than 10,000 characters, or a null character. Shorten or retype it.",
        defaults.bad_request,
    ),
)
_denied_page = _console_page(
    403, "Not allowed", "Your roles do not include this. Ask a superuser for one that does.", defaults.permission_denied
)
_plain_not_found = _plain_page(
    404, "Page not found", "There is no page at this address. Check the address, or continue with a link below."
)
_plain_server_error = _plain_page(
    500, "Something went wrong", "The error was logged. Try again; if it happens again, tell whoever runs this service."
)
_not_found_page = _console_page(
    404,
    "Page not found",
    "There is no such page, or its record has been deleted. Check the address, or look for it with Search above.",
    _plain_not_found,
)
permission_denied = _handler(403, "Forbidden", _denied_page)
not_found = _handler(404, str(exceptions.NotFound.default_detail), _not_found_page, _plain_not_found)
_suspended_page = _plain_page(503, "Changes cannot be saved now", "Try again in a moment.")
_server_error = _handler(500, INTERNAL, _plain_server_error)
_commits_suspended = _handler(503, OVERLOADED, _suspended_page, _suspended_page)


def server_error(request: HttpRequest) -> HttpResponse:
    """handler500, which Django calls while it handles the exception."""
    if not isinstance(sys.exception(), commits.CommitsSuspended):
        return _server_error(request)
    response = _commits_suspended(request)
    response.headers["Retry-After"] = str(commits.CommitsSuspended.wait_s)
    return response
