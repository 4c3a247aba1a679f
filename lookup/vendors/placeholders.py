"""The text of a vendor's answer, and what databases of caller names (CNAM) put in place of a name.

The words are those that FreePBX's superfecta, programs that use Twilio's or Telnyx's lookup, Samsung's telephone app
and carriers' help pages (vbuzzer.com, sipnex.ca, messageproviderlookup.com) name, with their usual variants.
"""

import html
import re
import unicodedata
from itertools import product
from pathlib import Path

from core.text import clean_text

_WIRELESS = ("wireless", "cell", "cellular", "mobile", "cell phone", "cellphone", "mobile phone", "cellular phone")
_HIDDEN = ("private", "anonymous", "restricted", "blocked", "withheld", "unlisted", "unpublished", "non published")
_UNKNOWN = ("unknown", "unavailable", "unavail", "not available", "no", "toll free", "tollfree", "out of area", "voip")
_KINDS = (*_WIRELESS, *_HIDDEN, *_UNKNOWN, "international", "long distance", "incoming", "landline")
_THINGS = (
    "call",
    "caller",
    "name",
    "number",
    "id",
    "user",
    "customer",
    "subscriber",
    "phone",
    "caller id",
    "caller name",
)
# Of the North American numbering plan: `MICHIGAN CALL`.
_STATES = """
Alabama, Alaska, Alberta, Arizona, Arkansas, British Columbia, California, Colorado, Connecticut, Delaware,
Florida, Georgia, Hawaii, Idaho, Illinois, Indiana, Iowa, Kansas, Kentucky, Louisiana, Maine, Manitoba,
Maryland, Massachusetts, Michigan, Minnesota, Mississippi, Missouri, Montana, Nebraska, Nevada, New Brunswick,
New Hampshire, New Jersey, New Mexico, New York, Newfoundland, North Carolina, North Dakota, Nova Scotia, Ohio,
Oklahoma, Ontario, Oregon, Pennsylvania, Quebec, Rhode Island, Saskatchewan, South Carolina, South Dakota,
Tennessee, Texas, Utah, Vermont, Virginia, Washington, West Virginia, Wisconsin, Wyoming
"""
# Of a place too: not `Mobile`, a city, nor `Private`.
_NOTHING = """
none, null, nil, undefined, undetermined, unassigned, unknown, unavailable, unavail, not available, not found,
not provided, no data, no record, no match, no result
"""
_NO_NAME = """
no cnam, no cnam found, no cnam available, no name found, no name available, no data found, name not found,
cnam not found, unknown unknown, pay phone, payphone, cnam unavailable, cnam not available, id unavailable,
name unavailable, name unavail, name unknown, name not available, name withheld, number withheld, caller,
caller unknown, caller id unavailable, caller name unavailable, caller name not available, toll free service
"""


def _listed(text: str) -> set[str]:
    return {each.strip() for each in text.lower().split(",")}


_NOTHING_WORDS = {"", *_listed(_NOTHING)}
_WORDS = {
    *_NOTHING_WORDS,
    *_listed(_NO_NAME),
    *set(_KINDS) - {"cell", "no", "incoming", "landline"},
    *(f"{kind} {thing}" for kind, thing in product(_KINDS, _THINGS)),
    *(f"{state} call" for state in _listed(_STATES)),
}
# A caller name has 15 characters, and some databases have one less.
_WORDS |= {words[:length].rstrip() for words in _WORDS for length in (14, 15) if len(words) > length}
# With a slash, because N A may be initials.
_NOT_APPLICABLE = "n/a"
_BETWEEN_WORDS = re.compile(r"[\W_]+")
# A telephone number, or a letter and a number, such as V0123456789. No text of fewer than seven digits is one: 7-11.
_NUMBER = re.compile(r"(?:tel:|sip:|[^\W\d_]\s?)?(?:[^\w]*\d){7,}[^\w]*")
#: Cities with their states, by libphonenumber's geodata: `rockingham nc`. A test says how to write it.
PLACES = Path(__file__).with_name("places.txt")
_PLACES = frozenset(PLACES.read_text(encoding="utf-8").split("\n"))
# Of 15 characters, the last two are for the state.
_CUT_PLACES = frozenset(
    f"{place[:-3][:n].rstrip()}{place[-2:]}" for place in _PLACES for n in (12, 13) if len(place) > 14
)
_STATE_CODES = frozenset(place[-2:] for place in _PLACES)
_ENTITY = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")


def cleaned(value: str, *, is_name: bool = True, is_cnam: bool = False) -> str:
    """`value` as it is shown; empty if that is a placeholder as a whole: upper and lower case, punctuation and white
    space do not count. Entities of HTML are read, also those that were written twice. `is_cnam`: a city with its state
    is no name, as it may be elsewhere (`Madison Al`)."""
    if "&" in value:
        for _ in range(2):
            value = _ENTITY.sub(lambda entity: html.unescape(entity[0]), value)
    text = clean_text(value)
    return "" if _is_placeholder(text, is_name=is_name, is_cnam=is_cnam) else text


def _is_placeholder(text: str, *, is_name: bool, is_cnam: bool) -> bool:
    folded = unicodedata.normalize("NFKC", text).casefold()
    words = _BETWEEN_WORDS.sub(" ", folded).strip()
    return (
        words in (_WORDS if is_name else _NOTHING_WORDS)
        or folded.strip("()[]<>*-. ") == _NOT_APPLICABLE
        or (is_name and is_cnam and _has_state(words))
        or _NUMBER.fullmatch(folded) is not None
    )


def _has_state(words: str) -> bool:
    """Whether a state ends it, after nothing but a city, or a placeholder of several words: `cell phone wa`."""
    before, _, state = words.rpartition(" ")
    return (
        words in _PLACES
        or f"{words[:-2].rstrip()}{words[-2:]}" in _CUT_PLACES
        or (" " in before and before in _WORDS and state in _STATE_CODES)
    )
