"""Joiners are kept where a script or an emoji needs them, as RFC 5892 and emoji-zwj-sequences.txt say.

Reported of others: LemmyNet/lemmy#3888, kepano/defuddle#103, wireapp/wire-ios-utilities#33, usablica/persian.js#20,
anoopkunchukuttan/indic_nlp_library#7, libindic/normalizer#1.
"""

import sys

import pytest

from core.text import JOINERS, clean_text, is_printable

NEEDED = {
    "Persian": "\u0639\u0644\u06cc\u200c\u0631\u0636\u0627",
    "Persian with a mark": "\u0639\u0644\u06cc\u0651\u200c\u0631\u0636\u0627",
    "Hindi": "\u0915\u094d\u200d\u0937",
    "Sinhala": "\u0d9a\u0dca\u200d\u0dbb\u0dd2",
    "Bengali": "\u09b0\u200d\u09cd\u09af\u09be\u099a\u09c7\u09b2",
    "Malayalam, at the end": "\u0d30\u0d3e\u0d1c\u0d28\u0d4d\u200d",
    "Malayalam, at the end of words": "\u0d30\u0d3e\u0d1c\u0d28\u0d4d\u200d \u0d28\u0d3e\u0d2f\u0d30\u0d4d\u200d",
    "Bengali, at the end": "\u09b9\u09a0\u09be\u09a4\u09cd\u200d",
    "Telugu, at the end": "\u0c30\u0c3e\u0c2e\u0c4d\u200c",
    "family": "Kita \U0001f468\u200d\U0001f469\u200d\U0001f467",
    "tone of skin": "\U0001f469\U0001f3fd\u200d\U0001f680",
    "flag": "\U0001f3f3\ufe0f\u200d\u26a7\ufe0f",
    "head shaking": "\U0001f642\u200d\u2194\ufe0f",
}
STRAY = {
    "Latin non-joiner": "Acme\u200cLtd",
    "Latin joiner": "Acme\u200dLtd",
    "first": "\u200c\u0639\u0644\u06cc",
    "last": "\u0639\u0644\u06cc\u200c",
    "after a letter that joins to nothing": "\u062f\u200c\u0631",
    "emoji and nothing": "\U0001f468\u200d",
    "emoji and a letter": "\U0001f468\u200da",
    "space": "a \u200d b",
}
DECEIVING = ["Acme\u202eLtd", "Acme\u2066Ltd", "Acme\u200bLtd", "Acme\u2060Ltd", "Acme\ufeffLtd", "Acme\u00adLtd"]


@pytest.mark.parametrize("name", NEEDED.values(), ids=NEEDED)
def test_joiner_that_is_needed_is_not_lost(name: str) -> None:
    assert is_printable(name)
    assert clean_text(name) == name


@pytest.mark.parametrize("name", STRAY.values(), ids=STRAY)
def test_joiner_that_nothing_shows_is_not_kept(name: str) -> None:
    assert not is_printable(name)
    assert not {"\u200c", "\u200d"}.intersection(clean_text(name))


def test_one_joiner_is_enough() -> None:
    chillu = "\u0d28\u0d4d\u200d"
    assert not is_printable(f"{chillu}\u200d")
    assert clean_text(f"{chillu}\u200d") == chillu


@pytest.mark.parametrize("name", DECEIVING)
def test_other_invisible_characters_are_not_printable(name: str) -> None:
    assert not is_printable(name)
    assert clean_text(name) == "AcmeLtd"


def test_many_joiners_take_linear_time() -> None:
    """The context of each is short."""
    text = "\u0628\u0651" * 50_000 + "\u200c" * 50_000
    assert len(clean_text(text)) == 200


def test_no_printable_character_raises_beside_a_joiner() -> None:
    """Python has no name for some, such as those of Tangut."""
    for character in filter(str.isprintable, map(chr, range(sys.maxunicode + 1))):
        for joiner in JOINERS:
            is_printable(f"{character}{joiner}b")
    assert clean_text("\U00017000\u200cb") == "\U00017000b"
