"""Text from people and other systems."""

MAX_TEXT = 200

# Zero-width non-joiner and joiner: not "printable", yet part of Persian, Hindi and other names.
_JOINERS = "\u200c\u200d"


def sentence(text: str) -> str:
    """`text` with one full stop; empty if it is."""
    text = text.strip().rstrip(".")
    return f"{text}." if text else ""


def clean_text(text: str) -> str:
    """One line of at most MAX_TEXT printable characters: white space collapsed, control characters and lone surrogates
    removed."""
    if text.isprintable() and "  " not in text and len(text) <= MAX_TEXT:  # the usual case; imports have millions
        return text.strip()
    if not text.isprintable():
        text = "".join(c for c in " ".join(text.split()) if c.isprintable() or c in _JOINERS)
    text = " ".join(text.split())[:MAX_TEXT].rstrip()
    return text if text.strip(_JOINERS) else ""
