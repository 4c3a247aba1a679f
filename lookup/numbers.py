"""Pure: what a number is and how it may be shown. No Django, no database."""

import hashlib
import re
from collections.abc import Callable

import phonenumbers
from phonenumbers import COUNTRY_CODE_TO_REGION_CODE

_DIGITS = re.compile(r"[0-9]+")
#: A number as the API takes it, whole: E.164 without its plus.
PATTERN = "[1-9][0-9]{6,14}"
_NUMBER = re.compile(PATTERN)
_TRUNK_ZERO = re.compile(r"\(\s*0\s*\)")
_SEPARATORS = re.compile(r"[\s().-]")


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


def read(text: str) -> str:
    """As `parse`, from a person's hand: with a +, spaces, hyphens, dots or parentheses. Raises InvalidNumber."""
    # "+49 (0)30 …": that zero is dialled at home only; kept, it would make another number.
    if _TRUNK_ZERO.search(text):
        raise InvalidNumber("must not hold a (0)")
    return parse(_SEPARATORS.sub("", text).removeprefix("+"))


def mask(digits: str) -> str:
    """`digits` for a log: all but the country code and the last two replaced by `*`."""
    shown = len(country_code(digits) or "")
    return digits[:shown] + "*" * (len(digits) - shown - 2) + digits[-2:]


def country_code(digits: str) -> str | None:
    """Of `digits`, the country calling code (ITU E.164); None where no country has it."""
    return next((digits[:n] for n in (1, 2, 3) if int(digits[:n]) in COUNTRY_CODE_TO_REGION_CODE), None)


def region(digits: str) -> str | None:
    """ISO 3166-1 alpha-2 of the country whose plan has the number (`CA` and `US` share code 1); None for no country."""
    found = phonenumbers.region_code_for_number(_parsed(digits)) if country_code(digits) else None
    return None if found == phonenumbers.REGION_CODE_FOR_NON_GEO_ENTITY else found


def national_digits(digits: str) -> str | None:
    """The national (significant) number: without the country code; Italy's leading zero stays."""
    return phonenumbers.national_significant_number(_parsed(digits)) if country_code(digits) else None


def _nanp_digits(digits: str) -> str | None:
    """The ten digits of the North American Numbering Plan."""
    return digits[1:] if len(digits) == 11 and digits[0] == "1" else None


def _nanp_dashed(digits: str) -> str | None:
    ten = _nanp_digits(digits)
    return ten and f"{ten[:3]}-{ten[3:6]}-{ten[6:]}"


def _parsed(digits: str) -> phonenumbers.PhoneNumber:
    try:
        return phonenumbers.parse(f"+{digits}")
    except phonenumbers.NumberParseException:
        code = country_code(digits) or ""
        return phonenumbers.PhoneNumber(country_code=int(code), national_number=int(digits[len(code) :]))


#: How a vendor may want a number written. None: the number cannot be written so.
FORMATS: dict[str, Callable[[str], str | None]] = {
    "e164": lambda digits: f"+{digits}",
    "e164_digits": lambda digits: digits,
    "national_digits": national_digits,
    "nanp_digits": _nanp_digits,
    "nanp_dashed": _nanp_dashed,
    "country_code": country_code,
    "region": region,
    "sha1_e164": lambda digits: hashlib.sha1(f"+{digits}".encode(), usedforsecurity=False).hexdigest().upper(),
}
