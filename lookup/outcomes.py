"""What each member of a slot contributed to a search, in words that may be stored and shown."""

import re
from typing import NamedTuple

from core.text import clean_text
from lookup.answers import Answer, Failed

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


class MemberCall(NamedTuple):
    """What one member of a slot, or the operator rule, contributed to a search.

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
