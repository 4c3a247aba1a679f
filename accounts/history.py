"""The console's history (django.contrib.admin's LogEntry): rows for what is done outside a model's admin pages."""

import os
import pwd
from enum import IntEnum

from django.contrib.admin.models import ADDITION, CHANGE, DELETION, LogEntry
from django.contrib.auth import get_user_model
from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.hashers import make_password
from django.contrib.contenttypes.models import ContentType
from django.db.models import Model

MAX_ACTOR = 150
_MAX_SUDO_USER = 64


class Action(IntEnum):
    """Django's action flags, and those that it lacks."""

    ADDITION = ADDITION
    CHANGE = CHANGE
    DELETION = DELETION
    EXPORT = 4
    IMPORT = 5
    LOGIN = 6


def command_actor() -> str:
    """Who runs this process, as ledger and history name it: `root (command line)`, or with sudo
    `alice via sudo as root (command line)`.

    The name is the system's for the process's user id, not $USER, which anybody can set; where the system has none, as
    in a container without a passwd entry, it is `uid 1000`. $SUDO_USER can be forged, so it never replaces the name.
    """
    uid = os.getuid()
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:
        name = f"uid {uid}"
    sudo_user = "".join(filter(str.isprintable, os.environ.get("SUDO_USER", "")))[:_MAX_SUDO_USER]
    if sudo_user:
        name = f"{sudo_user} via sudo as {name}"
    return f"{name[: MAX_ACTOR - 15]} (command line)"


def record_command(
    *, action: Action, message: str, target: Model | None = None, kind: type[Model] | None = None, name: str = ""
) -> None:
    """Write the history row of a command: what it did to `target`, or to objects of `kind` that `name` describes.

    Call it in the transaction of the change. Neither `message` nor `name` may hold a caller's number or name.
    """
    record(user=_command_user(), action=action, message=message, target=target, kind=kind, name=name)


def record(
    *,
    user: AbstractBaseUser,
    action: Action,
    message: str,
    target: Model | None = None,
    kind: type[Model] | None = None,
    name: str = "",
) -> None:
    """Write one history row. Arguments as in `record_command`."""
    of = target or kind
    LogEntry.objects.create(
        user_id=user.pk,
        content_type=ContentType.objects.get_for_model(of) if of else None,
        object_id=None if target is None else str(target.pk),
        object_repr=(name or str(target or ""))[:200],
        action_flag=action,
        change_message=message,
    )


def _command_user() -> AbstractBaseUser:
    """The user that stands for `command_actor()` in the history, whose rows need one.

    It cannot log in: it is inactive and has no password. Its name has a space and parentheses, which the console
    refuses in user names, so nobody can be given it.
    """
    users = get_user_model()._default_manager
    user, _ = users.get_or_create(
        username=command_actor(),
        defaults={"is_active": False, "is_staff": False, "is_superuser": False, "password": make_password(None)},
    )
    return user
