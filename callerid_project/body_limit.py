"""The size limit of request bodies outside the API. The search has its own: lookup.parsers."""

from collections.abc import Callable

from django.conf import settings
from django.http import HttpRequest, HttpResponse

from callerid_project.errors import body_too_large
from callerid_project.middleware import is_api


class BodyLimitMiddleware:
    """Answers 413 to a body of more than DATA_UPLOAD_MAX_MEMORY_SIZE bytes, before anything reads it.

    Django itself applies that setting to form fields only, while it parses them: not to files, nor to what stands
    between the parts of a multipart body. The CSRF check parses the body, so all of that would come before the login.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if not is_api(request) and _content_length(request) > settings.DATA_UPLOAD_MAX_MEMORY_SIZE:
            return body_too_large(request)
        return self._get_response(request)


def _content_length(request: HttpRequest) -> int:
    """As WSGIRequest reads it: 0 where it is missing or not a number. A chunked body has one too (wsgi.py)."""
    try:
        return int(request.META.get("CONTENT_LENGTH") or 0)
    except ValueError:
        return 0
