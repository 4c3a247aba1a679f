"""Phone numbers: as the API takes them, as people and address books write them, and as they are shown. Pure: no Django,
no database."""

import hashlib
import re
import unicodedata
from collections.abc import Callable, Collection
from functools import lru_cache
from typing import cast
from urllib.parse import unquote

import phonenumbers
from phonenumbers import COUNTRY_CODE_TO_REGION_CODE, NumberParseException, PhoneMetadata, PhoneNumberDesc

#: ISO 3166-1 alpha-2 codes, and calling codes (ITU E.164), that have a numbering plan.
REGIONS = frozenset(phonenumbers.SUPPORTED_REGIONS)
COUNTRY_CODES = frozenset(COUNTRY_CODE_TO_REGION_CODE)
#: For examples of requests; reserved for fiction.
EXAMPLE_NUMBER = "493023125042"

_DIGITS = re.compile(r"[0-9]+")
_WRITTEN = re.compile(r"\+?[0-9]{1,15}")
#: Of a number with country code (E.164).
MIN_DIGITS, MAX_DIGITS = 7, 15
#: A number as the API takes it, whole: E.164 without its plus.
PATTERN = "[1-9][0-9]{6,14}"
_NUMBER = re.compile(PATTERN)
#: A longer cell holds no number. libphonenumber, too, refuses to read more characters than that.
MAX_CELL = 250
# Beside Unicode's dashes (Pd): minus signs, and a Japanese vowel sign that is typed for a hyphen.
_DASHES = "\u2043\u2212\u02d7\u30fc\uff70"
_PLUS_SIGNS = "\u207a\u208a\u2795\ufb29\ufe62"
_DOTS = "\u00b7\u2022\u2024\u2027\u2219\u22c5\u30fb\uff65\ufe52"
# Hangul fillers, Khmer vowels that show nothing, the Braille pattern without dots.
_BLANK = "\u115f\u1160\u3164\uffa0\u17b4\u17b5\u2800"
_IN_ASCII = {
    **str.maketrans(
        dict.fromkeys(_DASHES, "-")
        | dict.fromkeys(_PLUS_SIGNS, "+")
        | dict.fromkeys(_DOTS, ".")
        | dict.fromkeys(_BLANK)
    ),
    **{0xFF01 + n: chr(0x21 + n) for n in range(94)},  # full-width forms
}
#: By Unicode's categories: spaces, dashes, quotation marks; invisible and combining characters are left out.
_CATEGORIES = {"Zs": " ", "Zl": " ", "Zp": " ", "Pd": "-", "Pi": "'", "Pf": "'", "Cf": "", "Mn": "", "Me": ""}
_TRUNK_ZERO = re.compile(r"\(\s*0\s*\)")
_SEPARATORS = re.compile(r"[\s().\[\]/-]+")
#: Around a number: spaces, and what makes it a text in a spreadsheet, '+49... or ="+49...".
_AROUND = " \t\r\n'\"`="
_URI = re.compile(r"(tel|phone|sips?|callto|sms|fax)\.?:(?://)?\s*(.*)", re.IGNORECASE | re.DOTALL)
#: What comes after a number, with its first character: what is dialed after a pause or a wait, or an extension.
_AFTER = re.compile(r"[^0-9+().\[\]/\s-]")
_EXTENSION_WORDS = (
    "ext|extn|xtn|extension|press|extensi\u00f3n|durchwahl|dw|nebenstelle|nst|poste|interno|int|anexo|ramal|toestel|tst|wew"
    "|linka|klapka|kl|mell\u00e9k|anknytning|dahili|\u0434\u043e\u0431|\u0432\u043d|\u5185\u7dda|\u5206\u673a|\u5206\u6a5f"
)
# Ten digits or more may be a second number, unless they come after two pauses or before a #, as a conference's.
_EXTENSION = re.compile(
    r"(?![,;]?(?![,;]).*[0-9]{10}(?!.*#$))(?:[,;#~][,;#~*pwx0-9\s]*|[,;]?\s*(?:[pwx](?=[.:=#\s-]*[0-9])|"
    rf"{_EXTENSION_WORDS})[.:=#\s-]*(?:[0-9*,;pw][0-9*#,;pw\s]*)?)\)?",
    re.DOTALL,
)
_EXPONENT = re.compile(r"\+?[0-9]+([.,][0-9]+)?[eE]\+?[0-9]{1,2}")
#: With its country code. Area codes N11 and N9X are reserved (North American Numbering Plan, nanpa.com).
_NORTH_AMERICAN = re.compile(r"1[2-9](?!11|9)[0-9]{2}[2-9][0-9]{6}")
#: What a spreadsheet or a program makes of a number: 493023125042.0.
_DECIMALS = re.compile(r"(\+?[0-9]{4,})\.([0-9]{1,2})")


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


def is_number(text: str) -> bool:
    """Whether `parse` takes it as it is."""
    return _NUMBER.fullmatch(text) is not None


def parse_typed(text: str) -> str:
    """As `parse_coded`, for a number that someone typed: one that no country's plan allows is taken as it is, because
    plans change faster than libraries. Raises InvalidNumber."""
    try:
        return parse_coded(text)
    except InvalidNumber:
        digits = parse(without_separators(text).removeprefix("+"))
        if _TRUNK_ZERO.search(_ascii(text)):  # it is dialed at home only; kept, it would make another number
            raise InvalidNumber("must not hold a (0)") from None
        return digits


def parse_searched(text: str) -> str:
    """As `parse_typed`, for a number to look for: one that no country's plan allows needs its +, because it may rather
    lack its country code. Raises InvalidNumber."""
    digits = parse_typed(text)
    if not in_plan(digits) and not without_separators(text).startswith("+"):
        raise InvalidNumber("no country has such numbers")
    return digits


def with_country_code(text: str, country_code: str, international_prefix: str) -> str | None:
    """The digits, with country code, of a number without a plus: as it is dialed in the country with `country_code`, if
    that is not empty, or abroad, after `international_prefix`. None if it is no such number."""
    try:
        digits = without_separators(text)
        if international_prefix and digits.startswith(international_prefix):
            return parse_listed(f"+{digits.removeprefix(international_prefix)}")
        return parse_listed(digits, COUNTRY_CODE_TO_REGION_CODE[int(country_code)][0])
    except (ValueError, KeyError):  # InvalidNumber, or no country code
        return None


def parse_prefix(text: str) -> str:
    """As `parse_typed`, for the beginning of a number or a whole one: 1 to 15 digits. Raises InvalidNumber."""
    digits = without_separators(text).removeprefix("+")
    if len(digits) >= MIN_DIGITS:
        return parse_typed(text)
    if _TRUNK_ZERO.search(_ascii(text)):
        raise InvalidNumber("must not hold a (0)")
    return parse(digits.ljust(MIN_DIGITS, "0"))[: len(digits)]


def without_separators(text: str) -> str:
    """The digits of a written number, after a + if it has one: in ASCII (`_ascii`), without spaces, dashes, dots,
    strokes, brackets, extension, and what spreadsheets or an address (`tel:`, `sip:`) put around it. Of other text,
    what is left so.

    Raises InvalidNumber for more than MAX_CELL characters, and if digits are lost or are two numbers.
    """
    if _WRITTEN.fullmatch(text):
        return text
    text = _ascii(text).strip(_AROUND)
    if address := _URI.fullmatch(text):
        text = _of_address(address[2])
    elif text[:3].upper() == "%2B":  # a plus of an address
        text = f"+{text[3:]}"
    if _EXPONENT.fullmatch(text):
        raise InvalidNumber("has lost its last digits to an exponent; format the column as text, and export it again")
    if decimals := _DECIMALS.fullmatch(text):
        if decimals[2].strip("0"):
            raise InvalidNumber("is no phone number")
        text = decimals[1]
    if (after := _AFTER.search(text)) and _EXTENSION.fullmatch(text[after.start() :].lower()):
        text = text[: after.start()]
    if _SECOND.search(text):
        raise InvalidNumber("is no phone number")
    return _SEPARATORS.sub("", text)


def _of_address(text: str) -> str:
    """The number in a URI after its scheme (RFC 3966, RFC 3261). Raises InvalidNumber."""
    user, *parameters = unquote(text).partition("@")[0].split(";")
    if not user.strip().startswith("+") and any(each.lower().startswith("phone-context=") for each in parameters):
        raise InvalidNumber("has no country code")
    return user


def _ascii(text: str) -> str:
    """`text` with digits, plus signs, dashes and spaces of every script in ASCII, and without invisible characters.
    Raises InvalidNumber for more than MAX_CELL characters."""
    if len(text) > MAX_CELL:
        raise InvalidNumber(f"is longer than {MAX_CELL} characters")
    if text.isascii():
        return text
    return "".join(each if each.isascii() else _ascii_of(each) for each in text.translate(_IN_ASCII))


def _ascii_of(character: str) -> str:
    digit = unicodedata.decimal(character, None)
    return str(digit) if digit is not None else _CATEGORIES.get(unicodedata.category(character), character)


def parse_listed(text: str, region: str | None = None) -> str:
    """The digits, with country code, of a number in an address book or a list. Raises InvalidNumber.

    `+49 30 …`, or, where `region` (ISO 3166-1 alpha-2) is given, also as it is dialed there. Without a region nothing
    but a plus tells a country code from an area code: 646 is New York's, and +64 6 New Zealand's. Taken only when
    length and beginning fit the country's numbering plan. An extension is left out, for calls show the line.
    """
    return _canonical(without_separators(text), region)


def parse_coded(text: str) -> str:
    """As `parse_listed`, for a number that begins with its country code, with or without a +. Raises InvalidNumber."""
    text = without_separators(text)
    return _canonical(text if text.startswith(("+", "0")) else f"+{text}")


def _canonical(text: str, region: str | None = None) -> str:
    """The number as libphonenumber reads it, which knows what is dialed at home only: `+49 030 …` is `+49 30 …`. `text`
    is one of digits, perhaps after a plus. Raises InvalidNumber."""
    if text.startswith("+00"):  # no country code begins with 0, and 00 is dialed for the +
        text = "+" + text[3:]
    digits = text.removeprefix("+")
    if not _DIGITS.fullmatch(digits):
        raise InvalidNumber("is no phone number")
    if text.startswith("+"):
        if in_plan(parse(digits)) and not _has_trunk_prefix(digits):  # the same, and far quicker
            return digits
    elif region and (national := _national(region)):
        code, fits, other_beginning = national
        if fits(digits) and not other_beginning(digits):
            return code + digits
    try:
        number = phonenumbers.parse(text, region)
    except NumberParseException as error:
        raise InvalidNumber(_UNREADABLE.get(error.error_type, "is no phone number")) from None
    found = parse(f"{number.country_code}{phonenumbers.national_significant_number(number)}")
    if not in_plan(found):
        raise InvalidNumber("does not fit its country's numbering plan")
    return found


#: 23125042/43 are two numbers.
_SECOND = re.compile(r"/\s*[0-9]{1,3}$")
_NEVER = r"(?!)"
_UNREADABLE = {NumberParseException.INVALID_COUNTRY_CODE: "has no country code"}


def in_plan(digits: str) -> bool:
    """Whether some country's plan allows the length and the beginning of `digits` (ASCII digits alone).

    By libphonenumber's general description of the plan, which is wider than its list of the blocks in use
    (`phonenumbers.is_valid_number`), and far quicker to ask.
    """
    plan = _plan(digits[:3])
    return plan is not None and plan[0](digits) is not None


def _has_trunk_prefix(digits: str) -> bool:
    """Whether the number, which is in its plan, may have something after its country code that libphonenumber removes
    or replaces."""
    plan, length = _plan(digits[:3]), len(country_code(digits) or "")
    found = plan and plan[1](digits, length)
    return found is not None and found.end() > length


Fits = Callable[[str], re.Match[str] | None]


@lru_cache(maxsize=1000)
def _plan(first_digits: str) -> tuple[Fits, Callable[[str, int], re.Match[str] | None]] | None:
    """Of the country that these three digits begin: what matches its numbers with country code, and, after it, a trunk
    prefix; None if no country."""
    code = country_code(first_digits)
    if code is None:
        return None
    plan = PhoneMetadata.metadata_for_region_or_calling_code(int(code), COUNTRY_CODE_TO_REGION_CODE[int(code)][0])
    if plan is None:
        return None
    return _pattern(code, plan, len(code)), re.compile(plan.national_prefix_for_parsing or _NEVER, re.ASCII).match


@lru_cache(maxsize=300)
def _national(region: str) -> tuple[str, Fits, Fits] | None:
    """Of a region: its country code, what matches its numbers as they are without trunk prefix, and what begins with
    something that is not a part of the number: a trunk or an international prefix."""
    plan = PhoneMetadata.metadata_for_region(region)
    if plan is None:
        return None
    prefixes = "|".join(filter(None, (plan.national_prefix_for_parsing, plan.international_prefix)))
    code = str(plan.country_code)
    return code, _pattern("", plan, len(code)), re.compile(prefixes or _NEVER, re.ASCII).match


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
    if their plan allows the number, for plans grow faster than libraries are updated. In North America, only its area
    code may be newer than the library."""
    if found := region(digits):
        return (found,)
    if digits.startswith("1") and (not _NORTH_AMERICAN.fullmatch(digits) or region(f"{digits[:4]}5550100")):
        return ()
    regions = COUNTRY_CODE_TO_REGION_CODE[int(country_code(digits) or 0)] if in_plan(digits) else ()
    return [each for each in regions if each != phonenumbers.REGION_CODE_FOR_NON_GEO_ENTITY]


def likely_region(digits: str) -> str | None:
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
    "region": likely_region,
    "sha1_e164": lambda digits: hashlib.sha1(f"+{digits}".encode(), usedforsecurity=False).hexdigest().upper(),
}
