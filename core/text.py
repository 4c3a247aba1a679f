"""Text from people and other systems."""

import re
import unicodedata
from encodings import normalize_encoding
from encodings.aliases import aliases

from idna.core import valid_contextj

MAX_TEXT = 200
#: Characters of a parameter or a field of a form: pages refuse a longer one before they look at it.
MAX_FIELD = 10_000
# Codecs of Python, by the names of their modules: Unicode, single bytes, and what East Asian systems write. Others take
# quadratic time (UTF-7, unicode_escape), give lone surrogates (raw_unicode_escape), encode host names (IDNA, Punycode),
# or are no text.
_CODECS = re.compile(
    "utf_8(_sig)?|utf_16(_[bl]e)?|ascii|latin_1|iso8859_[0-9]{1,2}|cp[0-9]{3,4}|koi8_[rtu]|hp_roman8|kz1048|ptcp154|"
    "mac_(arabic|croatian|cyrillic|farsi|greek|iceland|latin2|roman|romanian|turkish)|tis_620|big5(hkscs)?|gb2312|"
    "gb18030|gbk|johab|euc_(jp|jis_2004|jisx0213|kr)|shift_jis(_2004|x0213)?|iso2022_(jp(_[123]|_2004|_ext)?|kr)"
)
# PostgreSQL stores no NUL, and neither database a lone surrogate.
_NOT_STORABLE = re.compile("[\0\ud800-\udfff]")

#: Zero-width non-joiner and joiner.
JOINERS = "\u200c\u200d"
_JOINER = re.compile(f"[{JOINERS}]")
#: Characters before and after a joiner that decide whether it is needed: marks may stand between it and a letter.
_JOINER_CONTEXT = 16
_VIRAMA = 9
#: What may follow a pictograph before a joiner: its presentation, and tones of skin.
_EMOJI_MODIFIERS = "\ufe0f\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff"
#: What shows nothing, for a class of a pattern: what Unicode says has no glyph (Default_Ignorable_Code_Point), its line
#: separators and interlinear annotations, the empty Braille pattern and the musical null note. As in integrations/.
INVISIBLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff"
    "\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d159\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_BLANK = re.compile(rf"[\s{INVISIBLE}]*")


def sentence(text: str) -> str:
    """`text` with one full stop; empty if it is."""
    text = text.strip().rstrip(".")
    return f"{text}." if text else ""


def encoding_named(name: str) -> str | None:
    """The name of the codec of Python for an encoding of files, such as `Windows-1252`; None if there is none. It
    decodes in linear time, and to valid Unicode."""
    normalized = normalize_encoding(name).lower()
    codec = aliases.get(normalized, normalized)
    try:
        # Python caches each name that it looks up: of untrusted names, only those of codecs.
        return codec if _CODECS.fullmatch(codec) and b"a".decode(codec, "replace") else None
    except LookupError:
        return None


def storable(text: str) -> str:
    """`text` without the characters that a database refuses."""
    return _NOT_STORABLE.sub("", text)


def is_printable(text: str) -> bool:
    """Whether all characters are printable, or joiners that a script or an emoji needs."""
    needed = (_is_needed(text, found.start()) for found in _JOINER.finditer(text))
    return text.isprintable() or (without_joiners(text).isprintable() and all(needed))


def without_joiners(text: str) -> str:
    """`text` as names are compared: with joiners, two could look alike."""
    return _JOINER.sub("", text)


def _is_needed(text: str, at: int) -> bool:
    """Whether the joiner there changes how its neighbours are shown."""
    before, after = text[max(0, at - _JOINER_CONTEXT) : at], text[at + 1 : at + 1 + _JOINER_CONTEXT]
    if not before:
        return False
    # RFC 5892, appendix A: after a virama, also at the end, as in old texts in Malayalam and Bengali; a non-joiner also
    # between letters that would join, as in Persian.
    try:
        if valid_contextj(before + text[at] + after, len(before)):
            return True
    except ValueError:  # a letter without a name, such as Tangut's, or one that Python does not know yet
        return False
    if not after or text[at] == JOINERS[0]:
        return False
    # Before a virama, as in Bengali (The Unicode Standard, section 12.2); between pictographs, as in
    # emoji-zwj-sequences.txt.
    is_before_virama = before[-1].isalpha() and unicodedata.combining(after[0]) == _VIRAMA
    return is_before_virama or (_is_pictograph(before.rstrip(_EMOJI_MODIFIERS)[-1:]) and _is_pictograph(after[0]))


def _is_pictograph(character: str) -> bool:
    return character == "\u2194" or (character != "" and unicodedata.category(character) == "So")


def clean_text(text: str) -> str:
    """One line of at most MAX_TEXT printable characters: white space collapsed, control characters, lone surrogates and
    joiners that nothing needs removed. Empty if nothing of it can be seen."""
    if text.isprintable() and "  " not in text and len(text) <= MAX_TEXT:  # the usual case; imports have millions
        return "" if _BLANK.fullmatch(text) else text.strip()
    if not text.isprintable():
        text = "".join(c for c in " ".join(text.split()) if c.isprintable() or c in JOINERS)
        text = _JOINER.sub(lambda found: found[0] if _is_needed(text, found.start()) else "", text)
    text = " ".join(text.split())[:MAX_TEXT].rstrip()
    return "" if _BLANK.fullmatch(text) else text
