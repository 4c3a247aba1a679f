"""Phone numbers as the API takes them and as people type them. Pure: no Django, no database."""

import re

_DIGITS = re.compile(r"[0-9]+")
#: A number as the API takes it, whole: E.164 without its plus.
PATTERN = "[1-9][0-9]{6,14}"
_NUMBER = re.compile(PATTERN)
#: A longer cell holds no number. libphonenumber, too, refuses to read more characters than that.
MAX_CELL = 250
# What Contacts on macOS and iOS leaves around numbers that were pasted: marks of the direction of writing.
DIRECTION_MARKS = dict.fromkeys([0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)])
_TRUNK_ZERO = re.compile(r"\(\s*0\s*\)")
# Hyphens as web pages and word processors write them are among them, U+2010 to U+2013.
SEPARATORS = re.compile(r"[\s().\u2010-\u2013-]")


class InvalidNumber(ValueError):
    """The text is not a phone number; the message says which rule it breaks, without repeating it."""


def parse(query: object) -> str:
    """The digits of `query`: country code and number, 7 to 15 digits (E.164), no leading zero; nothing is trimmed.

    Raises InvalidNumber. Whether the number is assigned is not checked: numbering plans change faster than libraries.
    """
    if not isinstance(query, str):
        raise InvalidNumber("must be a string")
    if _NUMBER.fullmatch(query):
        return query
    if not _DIGITS.fullmatch(query):
        raise InvalidNumber("must contain only digits")
    if not 7 <= len(query) <= 15:
        raise InvalidNumber("must have 7 to 15 digits")
    raise InvalidNumber("must start with a country code")


def parse_typed(text: str) -> str:
    """As `parse`, for typed input: with a +, spaces, hyphens, dots or parentheses. Raises InvalidNumber."""
    return parse(without_separators(text).removeprefix("+"))


def without_separators(text: str) -> str:
    """`text` without spaces, hyphens, dots, parentheses and marks of the direction of writing.

    Raises InvalidNumber for more than MAX_CELL characters, and for `+49 (0)30 …`: that zero is dialled at home only;
    kept, it would make another number.
    """
    require_short(text)
    if _TRUNK_ZERO.search(text):
        raise InvalidNumber("must not hold a (0)")
    return SEPARATORS.sub("", text.translate(DIRECTION_MARKS))


def require_short(text: str) -> None:
    """Raises InvalidNumber for more than MAX_CELL characters."""
    if len(text) > MAX_CELL:
        raise InvalidNumber(f"is longer than {MAX_CELL} characters")
