"""Built-in connector `geography`: the place of a number in the world's numbering plan.

Answers what phonenumbers' `geocoder.description_for_number(number, "en")` returns, or, where that is empty, the name of
the country that the number belongs to. Importing the geocoder would cost every process 98 MB and half a second, so its
data is in a table (load_numbering_plan) and its few rules are here.
"""

from contextlib import suppress
from typing import cast

import phonenumbers
from phonenumbers import NumberParseException, PhoneNumber, PhoneNumberType
from phonenumbers.phonenumberutil import is_number_type_geographical

from core.db import afetch_one
from lookup.answers import Answer, Found, NotFound
from lookup.connectors.base import Connector

# All candidates are prefixes of one number, so the longest is the largest integer.
_PLACE = "(SELECT place FROM phonebook_numberprefix WHERE prefix IN ({candidates}) ORDER BY prefix DESC LIMIT 1)"
_COUNTRY = "(SELECT name FROM phonebook_country WHERE code = %s)"
_FIND_COUNTRY = f"SELECT {_COUNTRY}"
#: By the number of candidates.
_FIND_PLACE = {
    digits: f"SELECT COALESCE(NULLIF({_PLACE.format(candidates=', '.join(['%s'] * digits))}, ''), {_COUNTRY})"
    for digits in range(1, 16)
}

#: Types of numbers that belong to the country that assigned them. Toll-free, premium-rate, shared-cost, universal and
#: personal numbers and voicemail may be anywhere.
_NATIONAL_TYPES = frozenset(
    {
        PhoneNumberType.FIXED_LINE,
        PhoneNumberType.MOBILE,
        PhoneNumberType.FIXED_LINE_OR_MOBILE,
        PhoneNumberType.VOIP,
        PhoneNumberType.PAGER,
    }
)


class Geography(Connector):
    """The place of a valid number, or its country. At most one SQL statement per lookup."""

    fields = frozenset({"location"})
    remote = False

    async def lookup(self, number: str, *, timeout_s: float) -> Answer:
        try:
            parsed = phonenumbers.parse(f"+{number}")
        except NumberParseException:
            return NotFound()
        country_code = cast(int, parsed.country_code)
        number_type = phonenumbers.number_type(parsed)
        if number_type == PhoneNumberType.UNKNOWN:
            return NotFound()
        region = phonenumbers.region_code_for_number(parsed)
        if is_number_type_geographical(number_type, country_code):
            digits = _digits_with_area(parsed, country_code)
            statement = _FIND_PLACE[len(digits)]
            parameters = [*(int(digits[:length]) for length in range(1, len(digits) + 1)), region]
        elif number_type in _NATIONAL_TYPES or _is_valid_in_one_region_only(parsed, country_code):
            statement, parameters = _FIND_COUNTRY, [region]
        else:
            return NotFound()
        (location,) = await afetch_one(statement, parameters) or (None,)
        return Found(location=location) if location else NotFound()


def _digits_with_area(parsed: PhoneNumber, country_code: int) -> str:
    """Country code and national number, without the digit before the area code of Argentine mobile numbers."""
    national = phonenumbers.national_significant_number(parsed)
    token = phonenumbers.country_mobile_token(country_code)
    if token and national.startswith(token):
        region = phonenumbers.region_code_for_country_code(country_code)
        with suppress(NumberParseException):
            without_token = phonenumbers.parse(national.removeprefix(token), region)
            national = phonenumbers.national_significant_number(without_token)
    return f"{country_code}{national}"


def _is_valid_in_one_region_only(parsed: PhoneNumber, country_code: int) -> bool:
    """Whether the country is unambiguous: +49 800 is German, +1 800 is shared by 25 countries."""
    regions = phonenumbers.region_codes_for_country_code(country_code)
    valid = (region for region in regions if phonenumbers.is_valid_number_for_region(parsed, region))
    return len(regions) == 1 or (next(valid, None) is not None and next(valid, None) is None)
