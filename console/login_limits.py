"""Rate limits on guessing passwords, authentication codes and links in the console (ADMIN_LOGIN_RATE).

Each function raises attempt_limits.TooManyAttempts. Call it before what it counts is checked: the limits then hold for
concurrent attempts too.
"""

from typing import Any

from django.conf import settings
from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from console import login_log
from core import attempt_limits


def count_login(request: HttpRequest) -> None:
    """Count a login attempt by client address and by user name, whether or not such a user exists, so that the response
    does not tell."""
    _count(request, "admin-login")
    _count(request, "admin-login-name", key=attempt_limits.user_name)


def count_password(request: HttpRequest) -> None:
    """Count a password that a logged-in user enters again."""
    _count(request, "admin-password", key="user")


def count_link(request: HttpRequest) -> None:
    """Count a request with the link of an invitation."""
    _count(request, "admin-invitation")


def count_code(request: HttpRequest) -> None:
    """Count an authentication code by client address and by user."""
    _count(request, "admin-code")
    _count(request, "admin-code-user", key="user")


def _count(request: HttpRequest, group: str, **key: Any) -> None:
    attempt_limits.count_attempt(request, group=group, rate=settings.ADMIN_LOGIN_RATE, **key)


def too_many_attempts(request: HttpRequest, error: attempt_limits.TooManyAttempts) -> HttpResponse:
    """RATELIMIT_VIEW: the page with which django-ratelimit's middleware answers TooManyAttempts."""
    login_log.log_throttled(request, error.group)
    context = {**admin.site.each_context(request), "title": "Too many attempts", "wait_s": error.wait_s}
    headers = {"Retry-After": str(error.wait_s)}
    return TemplateResponse(request, "admin/too_many_attempts.html", context, status=429, headers=headers)
