"""Rate limits on guessing passwords and authentication codes in the console (ADMIN_LOGIN_RATE)."""

from collections.abc import Callable
from functools import wraps
from typing import Any, Literal

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse

from callerid_project.console import login_log
from core import throttling


def count_login(request: HttpRequest) -> None:
    """Count a login attempt by client address and by user name. Raises throttling.TooManyAttempts.

    Call it before the password is checked: the limits then hold for concurrent attempts too. A name counts whether or
    not such a user exists, so that the response does not tell.
    """
    _count(request, "admin-login")
    _count(request, "admin-login-name", key=throttling.user_name)


def count_password(request: HttpRequest) -> None:
    """Count a password that a logged-in user enters again. Raises throttling.TooManyAttempts."""
    _count(request, "admin-password", key="user")


def count_link(request: HttpRequest) -> None:
    """Count a request with the link of an invitation. Raises throttling.TooManyAttempts."""
    _count(request, "admin-invitation")


def count_code(request: HttpRequest) -> None:
    """Count an authentication code by client address and by user. Raises throttling.TooManyAttempts."""
    _count(request, "admin-code")
    _count(request, "admin-code-user", key="user")


def _count(request: HttpRequest, group: str, **key: Any) -> None:
    throttling.count_attempt(request, group=group, rate=settings.ADMIN_LOGIN_RATE, **key)


def limited(
    what: Literal["password", "code", "link"],
) -> Callable[[Callable[..., HttpResponse]], Callable[..., HttpResponse]]:
    """Decorator for views of the admin site: log TooManyAttempts and respond with 429 and Retry-After."""

    def decorate(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
        @wraps(view)
        def limited_view(self: Any, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            try:
                return view(self, request, *args, **kwargs)
            except throttling.TooManyAttempts as error:
                login_log.log_throttled(request, what)
                context = {**self.each_context(request), "title": "Too many attempts", "wait_s": error.wait_s}
                headers = {"Retry-After": str(error.wait_s)}
                return TemplateResponse(request, "admin/too_many_attempts.html", context, status=429, headers=headers)

        return limited_view

    return decorate
