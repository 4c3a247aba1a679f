"""A source's answer about a number: Found, NotFound or Failed; never None."""

import re
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

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
#: Reasons of Failed which last until an operator corrects the key or the account with the vendor.
ACCOUNT_REASONS = frozenset({"auth", "quota"})
#: Reasons of Failed with which the vendor refused the call, so that it does not bill it.
REFUSALS = ACCOUNT_REASONS | {"rate_limited"}


# A connector of the operator's own may fail with any text as its reason, which may be confidential or too long.
_OUTCOME = re.compile(r"[A-Za-z_-]{1,32}")
# Hints hold no number; that of an operator's own connector is not trusted to.
_NUMBER = re.compile(r"[0-9]{6,}")


def clean_outcome(outcome: str) -> str:
    """`outcome`, or `error` if it is not one of at most 32 letters, `_` and `-`."""
    return outcome if _OUTCOME.fullmatch(outcome) else "error"


def clean_hint(hint: str) -> str:
    """`hint` in one line of at most 200 characters, without digits that may be a number."""
    return _NUMBER.sub("…", clean_text(hint))


class SourceCall(NamedTuple):
    """What one source of a slot, or the operator rule, contributed to a search.

    `elapsed_s`: None for operator rules. `cached`: no call was made; `joined`: the call was another search's.
    """

    connector: str
    answer: Answer
    elapsed_s: float | None
    cached: bool = False
    joined: bool = False

    @property
    def outcome(self) -> str:
        """`found` or `not_found`, with the prefix `cached_` where this search made no call; or the reason of a failure,
        with the prefix `shared_` where the call was another search's. The statistics tell these apart, because calls
        may cost money."""
        if isinstance(self.answer, Failed):
            return clean_outcome(("shared_" if self.joined else "") + self.answer.reason)
        return ("cached_" if self.cached or self.joined else "") + self.answer.outcome

    @property
    def hint(self) -> str:
        """What an operator can do about a failure; may be empty."""
        return clean_hint(self.answer.hint) if isinstance(self.answer, Failed) else ""
