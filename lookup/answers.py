"""A source's answer about a number: Found, NotFound or Failed; never None."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

from core.text import clean_text

FIELDS = ("name", "location", "spam")


@dataclass(frozen=True, slots=True)
class Found:
    """A source found something: at least one field. None: unknown. Text is trimmed and cut at MAX_TEXT characters.
    `unreadable`: fields that the source sent in a form that could not be read; they do not count as unknown.

    Raises ValueError when no field is known, and TypeError for a value of the wrong type.
    """

    outcome: ClassVar[str] = "found"

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
            raise ValueError("an answer without fields must be NotFound")

    def known(self) -> dict[str, Any]:
        """The known fields by name."""
        return {name: value for name in FIELDS if (value := getattr(self, name)) is not None}


@dataclass(frozen=True, slots=True)
class NotFound:
    """The source does not know the number. `reason`: `invalid_number` where it says that the number is invalid."""

    outcome: ClassVar[str] = "not_found"

    reason: str = field(default="not_found", compare=False)


@dataclass(frozen=True, slots=True)
class Failed:
    """The source could not answer.

    `reason`: a fixed identifier for log and statistics. `hint`: one sentence on what an operator can do. Neither may
    contain data from the source, a key or a number. `retry_after_s`: the source's Retry-After. `number_specific`:
    the failure concerns this number only.
    """

    outcome: ClassVar[str] = "failed"

    reason: str
    hint: str = ""
    retry_after_s: float | None = None
    number_specific: bool = field(default=False, compare=False)


Answer = Found | NotFound | Failed
