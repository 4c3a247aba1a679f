"""Keyed hashes of values that must be recognised again but not readable: phone numbers and idempotency keys."""

import hmac
from functools import lru_cache

from django.conf import settings


def keyed_hash(purpose: str, value: str) -> bytes:
    """HMAC-SHA-256 with NUMBER_HASH_KEY, 32 bytes. `purpose` keeps equal values of different kinds apart."""
    keyed = _keyed(settings.NUMBER_HASH_KEY).copy()
    keyed.update(f"{purpose}:{value}".encode())
    return keyed.digest()


@lru_cache(maxsize=1)
def _keyed(key: str) -> hmac.HMAC:
    return hmac.new(key.encode(), digestmod="sha256")
