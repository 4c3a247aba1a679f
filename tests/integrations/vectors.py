"""What every integration must do alike: which callers are searched, and which names are displayed how."""

import re
from collections.abc import Iterator

import phonenumbers
from phonenumbers import COUNTRY_CODE_TO_REGION_CODE, PhoneNumberFormat, PhoneNumberType

from tests import plugin

Row = tuple[dict[str, str], str, str]

GERMANY = {"COUNTRY_CODE": "49", "TRUNK_PREFIX": "0"}
NORTH_AMERICA = {"COUNTRY_CODE": "1", "NATIONAL_DIGITS": "10", "INTERNATIONAL_PREFIX": "011"}

AUSTRALIA = {"COUNTRY_CODE": "61", "TRUNK_PREFIX": "0", "INTERNATIONAL_PREFIX": "0011"}
ITALY = {"COUNTRY_CODE": "39", "NATIONAL_DIGITS": "6-11"}
RUSSIA = {"COUNTRY_CODE": "7", "TRUNK_PREFIX": "8", "NATIONAL_DIGITS": "10", "INTERNATIONAL_PREFIX": "810"}
#: RESTRICTED, BLOCKED, UNKNOWN, ANONYMOUS, UNAVAILABLE: https://help.twilio.com/articles/223179988
WITHHELD = ["7378742833", "2562533", "8656696", "266696687", "86282452253"]

#: Settings, the number as it arrives, and what is searched for; an empty string if nothing is.
NUMBERS: list[Row] = [
    (GERMANY, "+493023125555", "493023125555"),
    (GERMANY, "00493023125555", "493023125555"),
    (GERMANY, "03023125555", "493023125555"),
    (GERMANY, "493023125555", "493023125555"),
    (GERMANY, "0012125550123", "12125550123"),
    (GERMANY, "+49-30-23125.555", "493023125555"),
    (GERMANY, "101", ""),
    (GERMANY, "+49", ""),
    (GERMANY, "+1234567890123456", ""),
    (GERMANY, "+0493023125555", ""),
    (GERMANY, "anonymous", ""),
    (GERMANY, "+49alice5555", ""),
    (NORTH_AMERICA, "2125550123", "12125550123"),
    (NORTH_AMERICA, "12125550123", "12125550123"),
    (NORTH_AMERICA, "+12125550123", "12125550123"),
    (NORTH_AMERICA, "011493023125555", "493023125555"),
    # A trunk prefix after the country code, and 00 after the plus.
    (GERMANY, "+49(0)3023125555", "493023125555"),
    (GERMANY, "+4903023125555", "493023125555"),
    (GERMANY, "004903023125555", "493023125555"),
    (GERMANY, "+00493023125555", "493023125555"),
    (GERMANY, "%2B493023125555", "493023125555"),
    (ITALY, "054100012", "39054100012"),
    (ITALY, "0600000123", "390600000123"),
    (ITALY, "3400000123", "393400000123"),
    (ITALY, "00390541000124", "390541000124"),
    (ITALY, "+390541000125", "390541000125"),
    (ITALY, "393400000124", "393400000124"),
    (ITALY, "0000000000", ""),
    *(({"COUNTRY_CODE": "39", "TRUNK_PREFIX": "0"}, text, "") for text in ("054100012", "0600000123")),
    ({"COUNTRY_CODE": "39", "TRUNK_PREFIX": "0"}, "+390541000125", "390541000125"),
    (RUSSIA, "84950000123", "74950000123"),
    (RUSSIA, "88000000123", "78000000123"),
    (RUSSIA, "8000000124", "78000000124"),
    (RUSSIA, "+78000000125", "78000000125"),
    (RUSSIA, "+784950000124", "74950000124"),
    (RUSSIA, "810493023125555", "493023125555"),
    # Withheld, as Twilio and others write it. 737 is an area code of Texas.
    *((GERMANY, f"{plus}{digits}", "") for digits in WITHHELD for plus in ("+", "00", "")),
    *((GERMANY, text, "") for text in ("0", "00000000", "+00000000", "unknown", "restricted", "unavailable")),
    (NORTH_AMERICA, "7378742833", "17378742833"),
    (NORTH_AMERICA, "+7378742833", ""),
    (NORTH_AMERICA, "0000000000", ""),
    (NORTH_AMERICA, "0302312555", ""),
    (NORTH_AMERICA, "1111111111", ""),
    # National numbers without a trunk prefix that begin as North America's do, and one with too few digits.
    *((AUSTRALIA, text, "") for text in ("1300000161", "1800000161", "+1266696687")),
    ({}, "+12125550123", "12125550123"),
    ({}, "03023125555", ""),
]

#: As in an address book; settings, number and what is searched for. Not for SIP, whose addresses are ASCII.
WRITTEN: list[Row] = [
    (GERMANY, "+49\u202f30\u200923125\u2013555", "493023125555"),
    (GERMANY, "\u202a+49 (0)30\u00a0231\u00ad25555\u202c", "493023125555"),
    (GERMANY, "\uff0b49 30/23125555", "493023125555"),
    (GERMANY, "tel:+49-30-23125555;ext=1", "493023125555"),
    (GERMANY, "sip:%2B493023125555@198.51.100.5;user=phone", "493023125555"),
    (GERMANY, "sip:+493023125555@anonymous.invalid", ""),
    (GERMANY, "sip:anonymous@anonymous.invalid", ""),
    (GERMANY, "+49 30 2312555²", ""),
    (GERMANY, "", ""),
]


def documented() -> list[dict[str, str]]:
    """The settings of each country in docs/telephone-systems.md."""
    page = (plugin.ROOT / "docs" / "telephone-systems.md").read_text(encoding="utf-8")
    names = ("COUNTRY_CODE", "TRUNK_PREFIX", "NATIONAL_DIGITS", "INTERNATIONAL_PREFIX")
    rows = re.findall(r"^\| [^|]+ \| `([0-9]+)` \| ([^|]*)\| ([^|]*)\| `([0-9]+)` \|$", page, re.MULTILINE)
    return [{name: cell for name, value in zip(names, row, strict=True) if (cell := value.strip(" `"))} for row in rows]


def region_of(settings: dict[str, str]) -> str:
    return COUNTRY_CODE_TO_REGION_CODE[int(settings["COUNTRY_CODE"])][0]


def national_formats() -> Iterator[Row]:
    """libphonenumber's example numbers of each country, as dialed there and from abroad."""
    for settings in documented():
        for kind in (PhoneNumberType.FIXED_LINE, PhoneNumberType.MOBILE):
            number = phonenumbers.example_number_for_type(region_of(settings), kind)
            assert number
            code, national = settings["COUNTRY_CODE"], phonenumbers.national_significant_number(number)
            trunk, query = settings.get("TRUNK_PREFIX", ""), f"{code}{national}"
            dialed = re.sub("[^0-9]", "", phonenumbers.format_number(number, PhoneNumberFormat.NATIONAL))
            spellings = {dialed, f"+{query}", settings["INTERNATIONAL_PREFIX"] + query, f"+{code}{trunk}{national}"}
            if "NATIONAL_DIGITS" in settings:
                spellings.add(national)
            yield from ((settings, spelling, query) for spelling in sorted(spellings))


def by_settings(rows: list[Row]) -> Iterator[tuple[dict[str, str], dict[str, str]]]:
    """Settings, and their numbers as they arrive with what is searched for."""
    for settings in {str(row[0]): row[0] for row in rows}.values():
        yield settings, {number: query for used, number, query in rows if used == settings}


#: Of more than twenty countries.
NATIONAL = list(national_formats())

#: A name from the service, and how it is displayed.
NAMES: list[tuple[str, str]] = [
    ("Example Bakery", "Example Bakery"),
    ("O'Brien & Sons, Ltd.", "O'Brien & Sons, Ltd."),
    ("Müller Öfen 山田", "Müller Öfen 山田"),
    ('The "Bank"', "The Bank"),
    ("back\\slash", "back slash"),
    ('x\\" <sip:bank@example.org>;tag=1', "x sip:bank@example.org tag=1"),
    ("x\r\nX-Injected: yes", "x X-Injected: yes"),
    ("x\nX-Injected: yes", "x X-Injected: yes"),
    ("x\rX-Injected: yes", "x X-Injected: yes"),
    ("x\r\n\r\nv=0", "x v=0"),
    ("tab\there\x01\x7f", "tab here"),
    ("\u202eknaB\u2066\u200b\ufeff x\u0085y\u2028z", "knaB x y z"),
    ("  \t ", ""),
    ("$var(number) $env(CALLERID_TOKEN) %s ${EXTEN}", "$var(number) $env(CALLERID_TOKEN) %s ${EXTEN}"),
    ("\u061cA\u00adB\U000e0041\u3164\u034f\ufe0fC\u2800\uffa0", "A B C"),
    ("A\ufff0B\ufffbC\U0001bca0D\U0001bca3E\U0001d159F\U0001d173G\u2028H\u2029I", "A B C D E F G H I"),
    ("\u0000N\u0000\u0000ame\u0000", "N ame"),
    ("a" * 64, "a" * 64),
    ("a" * 65, "a" * 64),
    ("ö" * 300, "ö" * 32),
    ("a" + "山" * 50, "a" + "山" * 21),
    ("𝔄" * 100, "𝔄" * 16),
    ("x" * 6000, "x" * 64),
]

#: A URI of the caller, the settings, and the number to search ("": none).
LOCAL = [
    ("tel:2125550123;phone-context=+1", NORTH_AMERICA, "12125550123"),
    ("sip:2125550123;phone-context=+1@198.51.100.5;user=phone", NORTH_AMERICA, "12125550123"),
    ("tel:03023125555;phone-context=ims.example.org", GERMANY, "493023125555"),
    ("tel:03023125555;Phone-Context=+49", GERMANY, "493023125555"),
    ("tel:2125550123;phone-context=+1", GERMANY, ""),
    ("sip:2125550123;phone-context=+1@198.51.100.5;user=phone", GERMANY, ""),
    ("tel:2125550123;phone-context=+1", {}, ""),
    ("tel:23125555;phone-context=+49-30", GERMANY, ""),
    ("tel:3023125555;phone-context=+49", GERMANY, ""),
]
