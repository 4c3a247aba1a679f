"""Keyed hashes of values that must be recognised again but not readable: phone numbers and idempotency keys."""

import hmac

from django.conf import settings


def keyed_hash(purpose: str, value: str) -> bytes:
    """HMAC-SHA-256 with NUMBER_HASH_KEY, 32 bytes. `purpose` keeps equal values of different kinds apart."""
    return hmac.digest(settings.NUMBER_HASH_KEY.encode(), f"{purpose}:{value}".encode(), "sha256")
