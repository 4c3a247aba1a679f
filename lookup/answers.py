"""What a source says about a number: it found something, it has nothing, or it could not tell. Never one None."""

from dataclasses import dataclass, field
from typing import Any

FIELDS = ("name", "location", "spam")
MAX_TEXT = 200


@dataclass(frozen=True, slots=True)
class Found:
    """At least one of the fields. A field that is None is not known; text is trimmed, and cut at 200 characters.
    `unreadable`: fields about which the source said something that could not be read; they are not "not known".

    Raises ValueError when nothing is known and TypeError for a value of another type: a source's lie ends here.
    """

    name: str | None = None
    location: str | None = None
    spam: bool | None = None
    unreadable: frozenset[str] = field(default=frozenset(), compare=False)

    def __post_init__(self) -> None:
        for name, value in (("name", self.name), ("location", self.location)):
            if value is None:
                continue
            if not isinstance(value, str):
                raise TypeError(f"{name} must be text")
            if (cleaned := clean_text(value) or None) != value:
                object.__setattr__(self, name, cleaned)
        if self.spam is not None and not isinstance(self.spam, bool):
            raise TypeError("spam must be true or false")
        if self.name is None and self.location is None and self.spam is None:
            raise ValueError("an answer with no field is NotFound")

    def known(self) -> dict[str, Any]:
        """The fields that are known, by name."""
        return {name: value for name in FIELDS if (value := getattr(self, name)) is not None}


@dataclass(frozen=True, slots=True)
class NotFound:
    """The source was asked and has nothing. `reason`: `invalid_number` where it says that this is no number."""

    reason: str = field(default="not_found", compare=False)


@dataclass(frozen=True, slots=True)
class Failed:
    """The source could not tell.

    `reason`: a fixed word, for the log and the statistics. `hint`: what an operator can do, in one sentence. Neither
    ever holds what the source sent, a key or a number. `retry_after_s`: how long the source asks to be left alone.
    `of_this_number`: another number may well be answered.
    """

    reason: str
    hint: str = ""
    retry_after_s: float | None = None
    of_this_number: bool = field(default=False, compare=False)


Answer = Found | NotFound | Failed


# Zero-width non-joiner and joiner: not "printable", yet part of Persian, Hindi and other names.
_JOINERS = "\u200c\u200d"


def clean_text(text: str) -> str:
    """One line of printable text: white space folded, control characters and lone surrogates dropped, 200 at most."""
    if text.isprintable() and "  " not in text and len(text) <= MAX_TEXT:  # nearly all; imports have millions
        return text.strip()
    if not text.isprintable():
        text = "".join(c for c in " ".join(text.split()) if c.isprintable() or c in _JOINERS)
    text = " ".join(text.split())[:MAX_TEXT].rstrip()
    return text if text.strip(_JOINERS) else ""
