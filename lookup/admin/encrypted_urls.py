"""Encryption of phone numbers in the console's URLs, which proxies log and browsers remember."""

import hmac
from base64 import b32decode, b32encode

from core.hashing import keyed_hash

_TAG_BYTES = 16


def encrypt(text: str) -> str:
    """Encrypt `text` with NUMBER_HASH_KEY. The result has lower-case letters and digits, and is equal for equal texts.

    Deterministic authenticated encryption in the manner of RFC 5297 (SIV): a keyed hash of the text is its tag and
    the seed of the key stream. So each row has one URL, on every host and without a column for it.
    """
    data = text.encode()
    tag = keyed_hash("console address", text)[:_TAG_BYTES]
    return b32encode(tag + _xor_key_stream(data, tag)).decode().rstrip("=").lower()


def decrypt(encrypted: str) -> str:
    """Reverse `encrypt`. Raises ValueError for anything that was not encrypted with this key."""
    raw = b32decode(encrypted.upper() + "=" * (-len(encrypted) % 8))
    tag, data = raw[:_TAG_BYTES], raw[_TAG_BYTES:]
    text = _xor_key_stream(data, tag).decode()
    # Compare everything, not only the tag: Base32 has several spellings for the last bits.
    if not hmac.compare_digest(encrypt(text).encode(), encrypted.encode()):
        raise ValueError("not encrypted with this key")
    return text


def _xor_key_stream(data: bytes, tag: bytes) -> bytes:
    """Encrypts and decrypts."""
    blocks = range(0, len(data), 32)
    stream = b"".join(keyed_hash("console address key stream", f"{tag.hex()}:{start}") for start in blocks)
    return bytes(a ^ b for a, b in zip(data, stream, strict=False))
