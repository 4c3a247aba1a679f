"""The three secret keys: generated into the data directory on the embedded profile, required in the environment in
production. They are never printed."""

import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

NAMES = ("SECRET_KEY", "JWT_SIGNING_KEY", "NUMBER_HASH_KEY")
MIN_BYTES = 32
RESTORE = "Restore it from a backup: without its keys, all issued tokens stop working."
HOW_TO_MAKE = "python3 -c 'import secrets; print(secrets.token_urlsafe(48))'"


def from_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """All three keys from `environment`. Raises ImproperlyConfigured naming those that are missing."""
    missing = [name for name in NAMES if not environment.get(name)]
    if missing:
        raise ImproperlyConfigured(
            f"DATABASE_URL is set, so set {', '.join(missing)} too: three different secrets, the same on every host. "
            f"Generate one with: {HOW_TO_MAKE}"
        )
    return {name: environment[name] for name in NAMES}


def load_or_create(data_dir: Path, overrides: Mapping[str, str]) -> dict[str, str]:
    """The keys in `data_dir`/keys.json (mode 0600), generated on first use; `overrides` take precedence.

    Safe if two processes start at once: a hard link makes the complete file visible in one step, and the process that
    comes second reads the file of the first. Raises ImproperlyConfigured if the directory or the file is unusable.
    """
    path = data_dir / "keys.json"
    try:
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        if all(overrides.get(name) for name in NAMES):
            return from_environment(overrides)
        # In this order: another process that starts now creates the keys before the database.
        database = data_dir / "callerid.sqlite3"
        in_use = database.exists() and database.stat().st_size > 0
        if not path.exists():
            if in_use:
                raise ImproperlyConfigured(f"{path} is missing, but its database exists. {RESTORE}")
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
            f"Cannot use the data directory {data_dir}: {error.strerror}. "
            "Set CALLERID_DATA_DIR to a directory that you own."
        ) from error
    except ValueError:
        stored = None
    if not isinstance(stored, dict) or not all(isinstance(stored.get(name), str) for name in NAMES):
        raise ImproperlyConfigured(f"{path} is damaged. {RESTORE}")
    return {name: overrides.get(name) or stored[name] for name in NAMES}


def require_strong(keys: Mapping[str, str], previous: list[str]) -> None:
    """Raises ImproperlyConfigured for a key that is too short (RFC 7518, section 3.2) or used twice."""
    for name in NAMES:
        if len(keys[name].encode()) < MIN_BYTES:
            raise ImproperlyConfigured(f"{name} must have at least {MIN_BYTES} bytes. Generate one with: {HOW_TO_MAKE}")
    if "," in keys["JWT_SIGNING_KEY"]:
        raise ImproperlyConfigured("JWT_SIGNING_KEY must contain no comma: commas separate JWT_PREVIOUS_KEYS.")
    if len(set(keys.values())) < len(NAMES):
        raise ImproperlyConfigured("SECRET_KEY, JWT_SIGNING_KEY and NUMBER_HASH_KEY must be three different keys.")
    if any(len(key.encode()) < MIN_BYTES for key in previous):
        raise ImproperlyConfigured(f"Each of JWT_PREVIOUS_KEYS must have at least {MIN_BYTES} bytes.")
