"""Phone numbers in the console's addresses, encrypted: proxies log addresses, and browsers remember them."""

import hmac
from base64 import b32decode, b32encode

from accounts.hashing import keyed_hash

_TAG_BYTES = 16


def seal(text: str) -> str:
    """`text` encrypted with NUMBER_HASH_KEY, in lower-case letters and digits: the same for equal texts, on every host.

    Deterministic authenticated encryption in the manner of RFC 5297 (SIV): a keyed hash of the text is its tag and
    the seed of the key stream. So a row has one address without a column that holds it.
    """
    data = text.encode()
    tag = keyed_hash("console address", text)[:_TAG_BYTES]
    return b32encode(tag + _encrypted(data, tag)).decode().rstrip("=").lower()


def unseal(sealed: str) -> str:
    """The text of `sealed`. Raises ValueError for anything that `seal` has not made with this key."""
    raw = b32decode(sealed.upper() + "=" * (-len(sealed) % 8))
    tag, data = raw[:_TAG_BYTES], raw[_TAG_BYTES:]
    text = _encrypted(data, tag).decode()
    # The whole of it: Base32 has several ways to write the last bits.
    if not hmac.compare_digest(seal(text).encode(), sealed.encode()):
        raise ValueError("not sealed with this key")
    return text


def _encrypted(data: bytes, tag: bytes) -> bytes:
    """Data and key stream, one by one; applied twice it is the data again."""
    blocks = range(0, len(data), 32)
    stream = b"".join(keyed_hash("console address key stream", f"{tag.hex()}:{start}") for start in blocks)
    return bytes(a ^ b for a, b in zip(data, stream, strict=False))
