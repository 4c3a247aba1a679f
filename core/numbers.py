"""Phone numbers: as the API takes them, as people and address books write them, and as they are shown. Pure: no Django,
no database."""

import hashlib
import re
import unicodedata
from collections.abc import Callable, Collection
from functools import lru_cache
from typing import cast

import phonenumbers
from phonenumbers import COUNTRY_CODE_TO_REGION_CODE, NumberParseException, PhoneMetadata, PhoneNumberDesc

#: ISO 3166-1 alpha-2 codes, and calling codes (ITU E.164), that have a numbering plan.
REGIONS = frozenset(phonenumbers.SUPPORTED_REGIONS)
COUNTRY_CODES = frozenset(COUNTRY_CODE_TO_REGION_CODE)
#: For examples of requests; reserved for fiction.
EXAMPLE_NUMBER = "493023125042"

_DIGITS = re.compile(r"[0-9]+")
#: Of a number with country code (E.164).
MIN_DIGITS, MAX_DIGITS = 7, 15
#: A number as the API takes it, whole: E.164 without its plus.
PATTERN = "[1-9][0-9]{6,14}"
_NUMBER = re.compile(PATTERN)
#: A longer cell holds no number. libphonenumber, too, refuses to read more characters than that.
MAX_CELL = 250
# What Contacts on macOS and iOS leaves around numbers that were pasted: marks of the direction of writing.
_DIRECTION_MARKS = [0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)]
_REPLACED = {**dict.fromkeys(_DIRECTION_MARKS), ord("＋"): "+"}
_TRUNK_ZERO = re.compile(r"\(\s*0\s*\)")
# Hyphens as web pages and word processors write them are among them, U+2010 to U+2013.
_SEPARATORS = re.compile(r"[\s().\u2010-\u2013-]")


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
    if not MIN_DIGITS <= len(query) <= MAX_DIGITS:
        raise InvalidNumber("must have 7 to 15 digits")
    raise InvalidNumber("must start with a country code")


def parse_typed(text: str) -> str:
    """As `parse`, for typed input: with a +, spaces, hyphens, dots or parentheses. Raises InvalidNumber."""
    return parse(without_separators(text).removeprefix("+"))


def parse_searched(text: str) -> str:
    """As `parse_typed`, for a number to look for: one that no country's plan allows needs its +, because it may rather
    lack its country code. Raises InvalidNumber."""
    digits = parse_typed(text)
    if not in_plan(digits) and not without_separators(text).startswith("+"):
        raise InvalidNumber("no country has such numbers")
    return digits


def parse_prefix(text: str) -> str:
    """As `parse_typed`, for the beginning of a number or a whole one: 1 to 15 digits. Raises InvalidNumber."""
    digits = without_separators(text).removeprefix("+")
    return parse(digits) if len(digits) >= MIN_DIGITS else parse(digits.ljust(MIN_DIGITS, "0"))[: len(digits)]


def without_separators(text: str) -> str:
    """`text` in ASCII (`_ascii`), without spaces, hyphens, dots and parentheses.

    Raises InvalidNumber for more than MAX_CELL characters, and for `+49 (0)30 …`: that zero is dialed at home only;
    kept, it would make another number.
    """
    text = _ascii(text)
    if _TRUNK_ZERO.search(text):
        raise InvalidNumber("must not hold a (0)")
    return _SEPARATORS.sub("", text)


def _ascii(text: str) -> str:
    """`text` with plus and digits of any script in ASCII, and without marks of the direction of writing.
    Raises InvalidNumber for more than MAX_CELL characters."""
    if len(text) > MAX_CELL:
        raise InvalidNumber(f"is longer than {MAX_CELL} characters")
    if text.isascii():
        return text
    return "".join(str(unicodedata.decimal(each, each)) for each in text.translate(_REPLACED))


def parse_listed(text: str, region: str | None = None) -> str:
    """The digits, with country code, of a number in an address book or a list. Raises InvalidNumber.

    `+49 30 …`, or, where `region` (ISO 3166-1 alpha-2) is given, also as it is dialed there. Without a region nothing
    but a plus tells a country code from an area code: 646 is New York's, and +64 6 New Zealand's. Taken only when
    length and beginning fit the country's numbering plan. An extension is left out, for calls show the line.
    """
    text = _ascii(text).strip(" \t'")  # a spreadsheet's mark of text
    digits = text.removeprefix("+")
    if digits.isascii() and digits.isdigit():
        if text.startswith("+"):
            return _planned(parse(digits))
        if region and (national := _national(region)):
            code, fits, other_beginning = national
            if fits(digits) and not other_beginning(digits):
                return code + digits
    elif (
        text[:1] not in _BEGINNINGS or _ELSE.search(text) or not _EXTENSIONS.issuperset(_LETTERS.findall(text.lower()))
    ):
        raise InvalidNumber("is no phone number")
    try:
        number = phonenumbers.parse(text, region)
    except NumberParseException as error:
        raise InvalidNumber(_UNREADABLE.get(error.error_type, "is no phone number")) from None
    return _planned(parse(f"{number.country_code}{phonenumbers.national_significant_number(number)}"))


def _planned(digits: str) -> str:
    if in_plan(digits):
        return digits
    raise InvalidNumber("does not fit its country's numbering plan")


_BEGINNINGS = frozenset("+(0123456789")
# phonenumbers makes digits of letters and joins what a decimal point or a stroke divides: 493023125042.0 is what a
# spreadsheet makes of a number, 23125042/43 are two, and *31# comes before one. Takes time in proportion to the text's
# length: the second alternative starts at the first parenthesis only.
_ELSE = re.compile(r"[^(]\+|^[^(]*\((?s:.+)\+|\*|^\+?[0-9]+[.,][0-9]{1,2}$|/\s*[0-9]{1,3}$")
_LETTERS = re.compile(r"[^\W\d_]+")
_EXTENSIONS = frozenset({"x", "ext", "extn", "extension"})
_UNREADABLE = {NumberParseException.INVALID_COUNTRY_CODE: "has no country code"}


def in_plan(digits: str) -> bool:
    """Whether some country's plan allows the length and the beginning of `digits` (ASCII digits alone).

    By libphonenumber's general description of the plan, which is wider than its list of the blocks in use
    (`phonenumbers.is_valid_number`), and far quicker to ask.
    """
    fits = _plan(digits[:3])
    return fits is not None and fits(digits) is not None


Fits = Callable[[str], re.Match[str] | None]


@lru_cache(maxsize=1000)
def _plan(first_digits: str) -> Fits | None:
    """A pattern of the numbers, with country code, of the country that these three digits begin; None if no country."""
    code = country_code(first_digits)
    if code is None:
        return None
    plan = PhoneMetadata.metadata_for_region_or_calling_code(int(code), COUNTRY_CODE_TO_REGION_CODE[int(code)][0])
    return None if plan is None else _pattern(code, plan, len(code))


@lru_cache(maxsize=300)
def _national(region: str) -> tuple[str, Fits, Fits] | None:
    """Of a region: its country code, what matches its numbers as they are without trunk prefix, and what begins with
    something that is not a part of the number: a trunk or an international prefix."""
    plan = PhoneMetadata.metadata_for_region(region)
    if plan is None:
        return None
    prefixes = "|".join(filter(None, (plan.national_prefix_for_parsing, plan.international_prefix)))
    never = r"(?!)"
    code = str(plan.country_code)
    return code, _pattern("", plan, len(code)), re.compile(prefixes or never, re.ASCII).match


def _pattern(code: str, plan: PhoneMetadata, code_length: int) -> Fits:
    """A pattern of `code` and a national number of the plan, of 7 to 15 digits together."""
    description = cast(PhoneNumberDesc, plan.general_desc)  # every plan has one
    lengths = [length for length in description.possible_length if 7 <= code_length + length <= 15]
    one_of = "|".join(f"[0-9]{{{len(code) + length}}}" for length in lengths)
    return re.compile(f"(?=(?:{one_of})$){code}(?:{description.national_number_pattern})", re.ASCII).fullmatch


def formatted(digits: str) -> str:
    """`digits` for people, in groups as the number's country writes them: `+1 212 555 0100`. Without a known country:
    `+` and the digits."""
    if country_code(digits) is None:
        return f"+{digits}"
    text = phonenumbers.format_number(_parsed(digits), phonenumbers.PhoneNumberFormat.INTERNATIONAL)
    grouped = " ".join(_SEPARATORS.sub(" ", text).split())
    # Never another number than it is: what libphonenumber leaves out or adds is not lost.
    return grouped if grouped.replace(" ", "") == f"+{digits}" else f"+{digits}"


def mask(digits: str) -> str:
    """`digits` for a log: all but the country code and the last two replaced by `*`."""
    shown = len(country_code(digits) or "")
    return digits[:shown] + "*" * (len(digits) - shown - 2) + digits[-2:]


def country_code(digits: str) -> str | None:
    """The country calling code (ITU E.164) of `digits`; None if no country has it."""
    return next((digits[:n] for n in (1, 2, 3) if int(digits[:n]) in COUNTRY_CODE_TO_REGION_CODE), None)


def region(digits: str) -> str | None:
    """ISO 3166-1 alpha-2 of the country whose plan has the number (`CA` and `US` share code 1); None for no country."""
    found = phonenumbers.region_code_for_number(_parsed(digits)) if country_code(digits) else None
    return None if found == phonenumbers.REGION_CODE_FOR_NON_GEO_ENTITY else found


def possible_regions(digits: str) -> Collection[str]:
    """The countries that may have the number: its `region`; where that is not known, all that share its country code,
    if their plan allows the number, for plans grow faster than libraries are updated (area codes of North America)."""
    if found := region(digits):
        return (found,)
    regions = COUNTRY_CODE_TO_REGION_CODE[int(country_code(digits) or 0)] if in_plan(digits) else ()
    return [each for each in regions if each != phonenumbers.REGION_CODE_FOR_NON_GEO_ENTITY]


def _likely_region(digits: str) -> str | None:
    """The `region`, or the main country of those that may have the number."""
    return next(iter(possible_regions(digits)), None)


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
    "region": _likely_region,
    "sha1_e164": lambda digits: hashlib.sha1(f"+{digits}".encode(), usedforsecurity=False).hexdigest().upper(),
}
