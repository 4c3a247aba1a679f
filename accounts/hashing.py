"""Keyed hashes of what must be recognised again but not read: phone numbers and idempotency keys."""

import hmac

from django.conf import settings


def keyed_hash(purpose: str, value: str) -> bytes:
    """HMAC-SHA-256 with NUMBER_HASH_KEY, 32 bytes. `purpose` keeps a number's hash apart from an equal key's."""
    return hmac.digest(settings.NUMBER_HASH_KEY.encode(), f"{purpose}:{value}".encode(), "sha256")
