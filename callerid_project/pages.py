"""Middleware for pages alone: the API has no session, no user and no messages, and its searches do not pay for them.

Subclasses of Django's, so that Django's own checks find what the admin needs.
"""

from typing import Any

from django.contrib.auth.middleware import AuthenticationMiddleware
from django.contrib.messages.middleware import MessageMiddleware
from django.contrib.sessions.middleware import SessionMiddleware
from django.http import HttpRequest
from django_otp.middleware import OTPMiddleware

from callerid_project.middleware import is_api


class _ForPages:
    get_response: Any

    def __call__(self, request: HttpRequest) -> Any:
        return self.get_response(request) if is_api(request) else super().__call__(request)  # type: ignore[misc]


class Sessions(_ForPages, SessionMiddleware):
    pass


class Users(_ForPages, AuthenticationMiddleware):
    pass


class SecondFactors(_ForPages, OTPMiddleware):
    pass


class Messages(_ForPages, MessageMiddleware):
    pass
