"""Logs who logs in to the console, from where, and who is refused; complete logins are also recorded in the history.

A login is complete after the code of the second factor where one is needed, else after the password.

A user name is logged only where such a user exists: an unknown one may be a password typed into the wrong field.
"""

import logging
from typing import Any, Literal

from django.contrib.auth import get_user_model
from django.contrib.auth.signals import user_logged_in, user_logged_out, user_login_failed
from django.http import HttpRequest

from accounts.brake import client_address

log = logging.getLogger(__name__)

UNKNOWN = "-"


def connect() -> None:
    user_logged_in.connect(_logged_in)
    user_logged_out.connect(_logged_out)
    user_login_failed.connect(_login_failed)


def log_throttled(request: HttpRequest, what: Literal["password", "code"]) -> None:
    """Log an attempt that was refused before its password or code was checked."""
    name = request.user.get_username() or _known(request.POST.get("username", ""))
    log.warning("too many attempts: user=%s address=%s what=%s", name, client_address(request), what)


def log_second_factor(request: HttpRequest, event: str, *, level: int = logging.INFO) -> None:
    """Log what the user of `request` did with their own second factor. The line begins with `event`."""
    log.log(level, "%s: user=%s address=%s", event, request.user.get_username(), client_address(request))


def log_second_factor_reset(request: HttpRequest, user: Any) -> None:
    """Log that the user of `request` has reset the second factor of `user`."""
    by, address = request.user.get_username(), client_address(request)
    log.warning("second factor reset: user=%s by=%s address=%s", user.get_username(), by, address)


def record_login(request: HttpRequest, user: Any) -> None:
    """Log a complete login and record it in the history."""
    address = client_address(request)
    log.info("login: user=%s address=%s", user.get_username(), address)
    from accounts import history  # with its models, which are not ready when this module is imported

    history.record(
        user=user, action=history.Action.LOGIN, target=user, message=f"Logged in to the console from {address}."
    )


def log_not_staff(request: HttpRequest, user: Any) -> None:
    """Log a right password of a user who may not use the console."""
    log.warning("login refused, not staff: user=%s address=%s", user.get_username(), client_address(request))


def _logged_in(sender: Any, request: HttpRequest, user: Any, **kwargs: Any) -> None:
    if not _came_over_http(request):
        return
    from callerid_project import second_factor  # with its models, as above

    if second_factor.is_needed_after_password(request, user):
        log.info("password accepted, code required: user=%s address=%s", user.get_username(), client_address(request))
    else:
        record_login(request, user)


def _logged_out(sender: Any, request: HttpRequest, user: Any, **kwargs: Any) -> None:
    if user is not None and _came_over_http(request):
        log.info("logout: user=%s address=%s", user.get_username(), client_address(request))


def _login_failed(sender: Any, credentials: dict[str, Any], request: HttpRequest | None = None, **kwargs: Any) -> None:
    name = _known(str(credentials.get("username") or ""))
    address = client_address(request) if request is not None else UNKNOWN
    log.warning("login failed: user=%s address=%s", name, address)


def _came_over_http(request: HttpRequest) -> bool:
    """Not so for a login by code, such as a test client's `force_login`: nobody came."""
    return "REMOTE_ADDR" in request.META


def _known(name: str) -> str:
    """`name`, if it is a user's."""
    users = get_user_model()._default_manager
    name = get_user_model().normalize_username(name.strip())[:150]
    return name if "\0" not in name and users.filter(username=name).exists() else UNKNOWN
