"""Pure: what must not stand in a log line."""

import re

_TOKEN = re.compile(r"eyJ[\w-]+\.[\w-]*\.?[\w-]*")
_DIGITS = re.compile(r"(?<![0-9A-Za-z])(?<!token=)\+?[0-9]{7,15}(?![0-9A-Za-z]|\.[0-9])")
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f\x85\u2028\u2029]")
# Of RFC 9562: the first and the last group may be of digits alone.
_UUID = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[1-8][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}(?![0-9A-Za-z-])", re.IGNORECASE
)
_LAST_GROUP = 24


def redact(text: str) -> str:
    """`text` without what looks like a JWT or a phone number, and without control characters. A UUID stays."""
    return _CONTROL.sub("?", _DIGITS.sub(_masked, _TOKEN.sub("<token>", text)))


def _masked(match: re.Match[str]) -> str:
    text, start = match.string, match.start()
    if _UUID.match(text, start) or (start >= _LAST_GROUP and _UUID.match(text, start - _LAST_GROUP)):
        return match[0]
    return "<number>"


def is_clean(text: str) -> bool:
    """Whether a log line shows `text` as it is."""
    return redact(text) == text
