"""Text that a vendor sends in capitals: `ST. LOUIS, MO` becomes `St. Louis, MO`."""

import re

# A possessive s belongs to its word: JOHN'S is John's, but D'ALENE is D'Alene.
_WORD = re.compile(r"[^\W\d_]{2,}(?:['’]S\b)?")
# How words are written inside a name, from the places of the North American numbering plan. Other words of two letters
# are left alone: they may be a state's code or initials.
_WORDS = "AFB and Au Ct de du El Fe Ft Hs in Jn Jr La Le Mt of on or Pt Sr St the"
_SPELLINGS = {word.upper(): word for word in _WORDS.split()}
# Words of the table that are codes of states and provinces too, where they end a part: NEW ORLEANS LA.
_STATES = {"CT", "DE", "IN", "LA", "MT", "ON", "OR"}


def lowered(text: str) -> str:
    """`text` with each part between commas lowered that is in capitals as a whole; codes of states stay."""
    return ", ".join(_lowered_part(part) if part.isupper() else part for part in text.split(", "))


def _lowered_part(part: str) -> str:
    def spelled(match: re.Match[str]) -> str:
        word = match[0]
        if word in _STATES and match.end() == len(part):
            return word
        if len(word) > 3 and word.startswith("MC"):
            return "Mc" + word[2:].capitalize()
        spelling = _SPELLINGS.get(word) or (word if len(word) == 2 else word.capitalize())
        return spelling if match.start() else spelling[0].upper() + spelling[1:]

    return _WORD.sub(spelled, part)
