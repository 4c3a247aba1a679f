"""From the words of SOURCE_A and SOURCE_B to connectors: built-ins by name, others by dotted path, chains by comma."""

from functools import lru_cache

from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import import_string

from lookup.answers import FIELDS
from lookup.connectors.base import Connector

BUILT_IN = {
    "complaints": "lookup.connectors.complaints.Complaints",
    "directory": "lookup.connectors.directory.Directory",
    "geography": "lookup.connectors.geography.Geography",
}


@lru_cache(maxsize=16)
def bind(setting: str, names: str) -> tuple[Connector, ...]:
    """The connectors that `names` (comma-separated) stand for, in order; one object a process.

    `setting`: what the operator has to change, for the message. Raises ImproperlyConfigured.
    """
    words = [word.strip() for word in names.split(",")]
    if not all(words):
        raise ImproperlyConfigured(f"{setting} must name a source, or several with commas between. {_KNOWN}")
    return tuple(_connector(setting, word) for word in words)


_KNOWN = f"Built in: {', '.join(BUILT_IN)}; or the dotted path of a class of yours."


def _connector(setting: str, word: str) -> Connector:
    path = BUILT_IN.get(word, word)
    if "." not in path:
        raise ImproperlyConfigured(f"{setting} names the unknown source '{word}'. {_KNOWN}")
    try:
        cls = import_string(path)
    except ImportError as error:
        raise ImproperlyConfigured(f"{setting} names '{word}', which cannot be imported: {error}.") from error
    if not (isinstance(cls, type) and issubclass(cls, Connector)):
        raise ImproperlyConfigured(f"{setting} names '{word}', which is not a lookup.connectors.base.Connector class.")
    fields = getattr(cls, "fields", None)
    if not isinstance(fields, frozenset) or not fields or not fields <= set(FIELDS):
        raise ImproperlyConfigured(f"{word}.fields must be a frozenset of some of {', '.join(FIELDS)}.")
    if not isinstance(getattr(cls, "remote", None), bool):
        raise ImproperlyConfigured(f"{word}.remote must be True (it leaves the process) or False.")
    try:
        return cls()
    except Exception as error:
        raise ImproperlyConfigured(f"{setting} names '{word}', which cannot start: {type(error).__name__}.") from error
