"""Pure: what a number is and how it may be shown. No Django, no database."""

import re

from phonenumbers import COUNTRY_CODE_TO_REGION_CODE

_DIGITS = re.compile(r"[0-9]+")
_NUMBER = re.compile(r"[1-9][0-9]{6,14}")


class InvalidNumber(ValueError):
    """What was sent is not a phone number; the message says which rule it breaks, without repeating it."""


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


def mask(digits: str) -> str:
    """`digits` for a log: all but the country code and the last two replaced by `*`."""
    shown = next((n for n in (1, 2, 3) if int(digits[:n]) in COUNTRY_CODE_TO_REGION_CODE), 0)
    return digits[:shown] + "*" * (len(digits) - shown - 2) + digits[-2:]
