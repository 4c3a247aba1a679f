"""The Content-Security-Policy of an answer: the strictest one, settings.CONTENT_SECURITY_POLICY, but for pages.

A page's policy replaces some of its directives: `/` and `/docs` ask for theirs in home.py, and below the admin's index
every answer gets the admin's, its error pages too.
"""

from functools import lru_cache
from typing import Any

from csp.constants import HEADER, SELF, UNSAFE_EVAL, UNSAFE_INLINE
from csp.middleware import CSPMiddleware, PolicyParts
from csp.utils import build_policy
from django.http import HttpRequest, HttpResponseBase

from callerid_project.errors import in_admin
from callerid_project.middleware import is_api

HOME = {"script-src": [SELF], "style-src": [SELF], "img-src": [SELF], "connect-src": [SELF]}
# Swagger UI's style sheet has its arrows and marks in it.
DOCS = {**HOME, "img-src": [SELF, "data:"]}
# What django-unfold needs: Alpine.js compiles the expressions in its attributes, htmx writes a style element.
ADMIN = {
    "script-src": [SELF, UNSAFE_EVAL],
    "style-src": [SELF, UNSAFE_INLINE],
    "img-src": [SELF, "data:"],
    "font-src": [SELF],
    "connect-src": [SELF],
    "form-action": [SELF],
}


@lru_cache(maxsize=1)
def strictest() -> str:
    """That of whatever is no page."""
    return build_policy()


class Middleware(CSPMiddleware):
    def __call__(self, request: HttpRequest) -> Any:
        if not is_api(request):
            return super().__call__(request)
        response: Any = self.get_response(request)
        response.headers[HEADER] = strictest()
        return response

    def get_policy_parts(
        self, request: HttpRequest, response: HttpResponseBase, report_only: bool = False
    ) -> PolicyParts:
        parts = super().get_policy_parts(request, response, report_only)
        if not report_only and in_admin(request):
            parts.replace = ADMIN
        return parts
