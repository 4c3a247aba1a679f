"""Entries in the console's History (django.contrib.admin's LogEntry) for changes made outside a model's admin pages."""

import os
import pwd
from collections.abc import Iterable, Mapping
from typing import Any

from django.contrib.admin.models import ADDITION, CHANGE, DELETION, LogEntry
from django.contrib.auth import get_user_model
from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.hashers import make_password
from django.contrib.contenttypes.models import ContentType
from django.db.models import IntegerChoices, Model
from django.forms import ModelForm

MAX_ACTOR = 150
_MAX_SUDO_USER = 64


class Action(IntegerChoices):
    """Django's action flags, and those that it lacks, with their names in the console."""

    ADDITION = ADDITION, "added"
    CHANGE = CHANGE, "changed"
    DELETION = DELETION, "deleted"
    EXPORT = 4, "exported"
    IMPORT = 5, "imported"
    LOGIN = 6, "logged in"
    LOOKUP = 7, "looked up"


def command_actor() -> str:
    """The user who runs this process, as ledger and History name it: `root (command line)`, or with sudo
    `alice via sudo as root (command line)`.

    The name is the system's for the process's user id, not $USER, which anybody can set; without a passwd entry, as in
    some containers, it is `uid 1000`. $SUDO_USER can be forged, so it never replaces the name.
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


def record(
    *,
    action: Action,
    message: str,
    target: Model | None = None,
    model: type[Model] | None = None,
    name: str = "",
    user: AbstractBaseUser | None = None,
    once: str | None = None,
) -> None:
    """Write one History entry about `target`, or about objects of `model` that `name` describes.

    `user` None: whoever runs this command. `once`: the value of a form without a target, to find its entries by their
    object_id. Call it in the transaction of the change. Neither `message` nor `name` may contain a caller's number or
    name.
    """
    subject = target or model
    LogEntry.objects.create(
        user_id=(user or _command_user()).pk,
        content_type=ContentType.objects.get_for_model(subject) if subject else None,
        object_id=once if target is None else str(target.pk),
        object_repr=(name or str(target or ""))[:200],
        action_flag=action,
        change_message=message,
    )


def with_values(form: ModelForm, name: str, label: str) -> str:
    """A changed field of a saved form with its old and new value: `Rate limit from "30" to "100"`."""
    field: Any = form.instance._meta.get_field(name)
    old, new = form.initial.get(name), getattr(form.instance, name)
    if field.many_to_many:
        new = new.all()
    elif field.is_relation and old is not None:
        old = field.related_model._default_manager.filter(pk=old).first()
    choices = dict(field.flatchoices)
    return f"{label} from {_shown(old, choices)} to {_shown(new, choices)}"


def _shown(value: Any, choices: Mapping[Any, Any]) -> str:
    if isinstance(value, bool):
        value = "yes" if value else "no"
    elif isinstance(value, Iterable) and not isinstance(value, str):
        value = ", ".join(sorted(map(str, value)))
    return "nothing" if value in (None, "") else f'"{choices.get(value, value)}"'


def _command_user() -> AbstractBaseUser:
    """The user that represents `command_actor()` in the History, which requires one.

    It cannot log in: it is inactive and has no password. Its name has a space and parentheses, which the console
    refuses in user names, so it cannot be given to a person.
    """
    users = get_user_model()._default_manager
    user, _ = users.get_or_create(
        username=command_actor(),
        defaults={"is_active": False, "is_staff": False, "is_superuser": False, "password": make_password(None)},
    )
    return user
