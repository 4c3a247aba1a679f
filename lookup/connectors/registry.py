"""From the words of SOURCE_A and SOURCE_B to connectors: built-ins and presets by name, classes by dotted path, chains
by comma."""

import os
import threading
from pathlib import Path

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import import_string

from lookup import usage
from lookup.answers import FIELDS
from lookup.connectors import preset
from lookup.connectors.base import Connector
from lookup.connectors.breaker import Event
from lookup.connectors.chain import Member
from lookup.connectors.guard import Guard
from lookup.connectors.preset import EnvironmentLacks

BUILT_IN = {
    "complaints": "lookup.connectors.complaints.Complaints",
    "directory": "lookup.connectors.directory.Directory",
    "geography": "lookup.connectors.geography.Geography",
}


class NoPreset(ImproperlyConfigured):
    """The file of a preset is none."""


def bind(slot: str, setting: str, names: str) -> tuple[Member, ...]:
    """The connectors that `names` (comma-separated) stand for, in order; one object, and one guard, a process.

    `setting`: what the operator has to change, for the message. Raises ImproperlyConfigured.
    """
    words = [word.strip() for word in names.split(",")]
    if not all(words):
        raise ImproperlyConfigured(f"{setting} must name a source, or several with commas between. {_known()}")
    if twice := next((word for word in words if words.count(word) > 1), None):
        raise ImproperlyConfigured(f"{setting} names '{twice}' twice.")
    try:
        members = tuple(_member(word) for word in words)
    except EnvironmentLacks as error:
        raise EnvironmentLacks(f"{setting}: {error}", error.hint) from error
    except ImproperlyConfigured as error:
        raise type(error)(f"{setting}: {error}") from error
    for member in members:
        if member.guard:
            member.guard.slots.add(slot)
    return members


def presets() -> dict[str, Path]:
    """Name → file of every preset: the shipped ones, and those in PRESET_DIR, which stand above them."""
    own = preset.folder(Path(settings.PRESET_DIR)) if settings.PRESET_DIR else {}
    return {**preset.folder(preset.SHIPPED), **own}


_members: dict[str, Member] = {}
_binding = threading.Lock()


def _member(word: str) -> Member:
    with _binding:
        if word not in _members:
            connector = _connector(word)
            guard = Guard(word, connector, _count_event) if connector.remote else None
            _members[word] = Member(word, connector, guard)
        return _members[word]


def forget() -> None:
    """The next search binds anew, with what settings, environment and presets say then. Waits for calls in flight."""
    with _binding:
        for member in _members.values():
            if member.guard:
                member.guard.close()
        _members.clear()


def _connector(word: str) -> Connector:
    if word in BUILT_IN:
        return _of_class(word, BUILT_IN[word])
    if file := presets().get(word):
        from lookup.connectors.json_api import JsonApi  # an HTTP client: nothing that calls nobody needs it

        try:
            return JsonApi(preset.load(file), os.environ)
        except preset.Invalid as error:
            raise NoPreset(f"{error}.") from error
    if "." in word:
        return _of_class(word, word)
    raise ImproperlyConfigured(f"there is no source '{word}'. {_known()}")


def _of_class(word: str, path: str) -> Connector:
    try:
        cls = import_string(path)
    except ImportError as error:
        raise ImproperlyConfigured(f"'{word}' cannot be imported: {error}.") from error
    if not (isinstance(cls, type) and issubclass(cls, Connector)):
        raise ImproperlyConfigured(f"'{word}' is not a lookup.connectors.base.Connector class.")
    fields = getattr(cls, "fields", None)
    if not isinstance(fields, frozenset) or not fields or not fields <= set(FIELDS):
        raise ImproperlyConfigured(f"{word}.fields must be a frozenset of some of {', '.join(FIELDS)}.")
    if not isinstance(getattr(cls, "remote", None), bool):
        raise ImproperlyConfigured(f"{word}.remote must be True (it leaves the process) or False.")
    if not (isinstance(cls.concurrency, int) and cls.concurrency >= 1):
        raise ImproperlyConfigured(f"{word}.concurrency must be a whole number from 1 on.")
    try:
        return cls()
    except Exception as error:
        raise ImproperlyConfigured(f"'{word}' cannot start: {type(error).__name__}.") from error


def _known() -> str:
    return (
        f"Built in: {', '.join(BUILT_IN)}. Presets: {', '.join(presets())}. "
        "Or the dotted path of a class of yours, or a preset of yours in PRESET_DIR."
    )


def _count_event(connector: str, event: Event) -> None:
    usage.count(token_id=0, slot="", connector=connector, outcome=event, elapsed_s=None)
