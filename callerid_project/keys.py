"""The three secret keys: generated into the data directory on the embedded profile, required from the environment
in production. They are never printed."""

import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

NAMES = ("SECRET_KEY", "JWT_SIGNING_KEY", "NUMBER_HASH_KEY")
MIN_BYTES = 32
RESTORE = "Restore it from a backup: without its keys, tokens in use stop working."
HOW_TO_MAKE = "python3 -c 'import secrets; print(secrets.token_urlsafe(48))'"


def from_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """All three keys from `environment`. Raises ImproperlyConfigured naming those that are missing."""
    missing = [name for name in NAMES if not environment.get(name)]
    if missing:
        raise ImproperlyConfigured(
            f"With DATABASE_URL, set {', '.join(missing)} too: the same on every host, each a secret of its own. "
            f"Make one with: {HOW_TO_MAKE}"
        )
    return {name: environment[name] for name in NAMES}


def load_or_create(data_dir: Path, overrides: Mapping[str, str]) -> dict[str, str]:
    """The keys kept in `data_dir`/keys.json (mode 0600), made on first use; `overrides` win.

    Safe when two processes start at once: the file appears whole by a hard link, and the loser reads the winner's.
    Raises ImproperlyConfigured when the directory or the file cannot be used.
    """
    path = data_dir / "keys.json"
    try:
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        if all(overrides.get(name) for name in NAMES):
            return from_environment(overrides)
        # Asked in this order, for a process that starts beside this one makes the keys before the database.
        database = data_dir / "callerid.sqlite3"
        in_use = database.exists() and database.stat().st_size > 0
        if not path.exists():
            if in_use:
                raise ImproperlyConfigured(f"{path} is gone, but the database beside it is not. {RESTORE}")
            draft = data_dir / f".keys-{secrets.token_hex(8)}"
            descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with open(descriptor, "w", encoding="utf-8") as file:
                json.dump({name: secrets.token_urlsafe(48) for name in NAMES}, file)
                file.flush()
                os.fsync(file.fileno())
            try:
                os.link(draft, path)
            except FileExistsError:
                pass
            finally:
                draft.unlink()
        stored = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ImproperlyConfigured(
            f"Cannot use the data directory {data_dir}: {error.strerror}. Set CALLERID_DATA_DIR to one that is yours."
        ) from error
    except ValueError:
        stored = None
    if not isinstance(stored, dict) or not all(isinstance(stored.get(name), str) for name in NAMES):
        raise ImproperlyConfigured(f"{path} is not a file of keys that this service wrote. {RESTORE}")
    return {name: overrides.get(name) or stored[name] for name in NAMES}


def require_strong(keys: Mapping[str, str], previous: list[str]) -> None:
    """Raises ImproperlyConfigured for a key that is short or does another's work (RFC 7518, section 3.2)."""
    for name in NAMES:
        if len(keys[name].encode()) < MIN_BYTES:
            raise ImproperlyConfigured(f"{name} must have at least {MIN_BYTES} bytes. Make one with: {HOW_TO_MAKE}")
    if "," in keys["JWT_SIGNING_KEY"]:
        raise ImproperlyConfigured("JWT_SIGNING_KEY must hold no comma: one day it stands in JWT_PREVIOUS_KEYS.")
    if len(set(keys.values())) < len(NAMES):
        raise ImproperlyConfigured("SECRET_KEY, JWT_SIGNING_KEY and NUMBER_HASH_KEY must be three different keys.")
    if any(len(key.encode()) < MIN_BYTES for key in previous):
        raise ImproperlyConfigured(f"Each of JWT_PREVIOUS_KEYS must have at least {MIN_BYTES} bytes.")
