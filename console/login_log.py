"""Logs who logs in to the console, from where, and who is refused; complete logins are also recorded in the history.

A login is complete after the authentication code where one is needed, else after the password.

console.site imports this module, which connects it to Django's signals.

A user name is logged only if such a user exists: an unknown one may be a password typed into the wrong field.
"""

import logging
from typing import Any

from django.contrib.auth.models import User
from django.contrib.auth.signals import user_logged_in, user_logged_out, user_login_failed
from django.dispatch import receiver
from django.http import HttpRequest

from console import second_factor
from core import attempt_limits, history
from core.attempt_limits import FAILED_AUTHENTICATIONS
from core.client_address import client_address

log = logging.getLogger(__name__)

UNKNOWN = "-"


def log_throttled(request: HttpRequest, what: str) -> None:
    """Log an attempt that was refused before its password, code or link was checked."""
    name = request.user.get_username() or _existing(request.POST.get("username", ""))
    log.warning("too many attempts: user=%s address=%s what=%s", name, client_address(request), what)


def log_event(request: HttpRequest, event: str, user: Any = None, *, level: int = logging.INFO) -> None:
    """Log what `user` did, by default the user of `request`. The line begins with `event`."""
    name = (user or request.user).get_username()
    log.log(level, "%s: user=%s address=%s", event, name, client_address(request))


def log_second_factor_reset(request: HttpRequest, user: User) -> None:
    """Log that the user of `request` has reset the two-factor authentication of `user`."""
    by, address = request.user.get_username(), client_address(request)
    log.warning("second factor reset: user=%s by=%s address=%s", user.get_username(), by, address)


def record_login(request: HttpRequest, user: User) -> None:
    """Log a complete login and record it in the history."""
    log_event(request, "login", user)
    message = f"Logged in to the console from {client_address(request)}."
    history.record(user=user, action=history.Action.LOGIN, target=user, message=message)


@receiver(user_logged_in)
def _logged_in(sender: Any, request: HttpRequest, user: User, **kwargs: Any) -> None:
    if not _came_over_http(request):
        return
    if second_factor.is_needed_after_password(request, user):
        log_event(request, "password accepted, code required", user)
    else:
        record_login(request, user)


@receiver(user_logged_out)
def _logged_out(sender: Any, request: HttpRequest, user: User | None, **kwargs: Any) -> None:
    if user is not None and _came_over_http(request):
        log_event(request, "logout", user)


@receiver(user_login_failed)
def _login_failed(sender: Any, credentials: dict[str, Any], request: HttpRequest | None = None, **kwargs: Any) -> None:
    FAILED_AUTHENTICATIONS.inc("password")
    name = _existing(str(credentials.get("username") or ""))
    address = client_address(request) if request is not None else UNKNOWN
    log.warning("login failed: user=%s address=%s", name, address)


def _came_over_http(request: HttpRequest) -> bool:
    """False for a login by code, such as `force_login` of a test client: there is no client to log."""
    return "REMOTE_ADDR" in request.META


def _existing(name: str) -> str:
    """`name` if a user has it, else UNKNOWN."""
    # Cut first: normalizing takes quadratic time over a long run of combining characters. No user has a longer name.
    name = User.normalize_username(name.strip()[: attempt_limits.MAX_USER_NAME])
    return name if User.objects.filter(username=name).exists() else UNKNOWN
