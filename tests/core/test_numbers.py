"""Numbers as lists write them: what is taken, and how far the quick check agrees with phonenumbers' own verdict."""

import random

import phonenumbers
import pytest
from phonenumbers import COUNTRY_CODE_TO_REGION_CODE, NumberParseException

from core import numbers
from core.numbers import InvalidNumber, in_plan, parse_listed

pytestmark = pytest.mark.once

SAMPLES = 100_000


@pytest.mark.parametrize(
    ("text", "region", "digits"),
    [
        ("+12125550142", None, "12125550142"),
        ("'+1 212 555 0142", None, "12125550142"),
        ("+12125550142", "DE", "12125550142"),
        ("2125550142", "US", "12125550142"),
        ("12125550142", "US", "12125550142"),
        ("1 (212) 555-0142", "US", "12125550142"),
        ("011 49 30 23125042", "US", "493023125042"),
        ("+1-212-555-0142;ext=9", None, "12125550142"),
        ("212-555-0142 x9", "US", "12125550142"),
        ("+12125550142,,9#", None, "12125550142"),
        ("030 23125042", "DE", "493023125042"),
        ("030/23125042", "DE", "493023125042"),
        ("212.555.0142", "US", "12125550142"),
        ("+1 212 555 0142 Ext. 12", None, "12125550142"),
        ("03023125042", "DE", "493023125042"),
        ("0049 30 23125042", "DE", "493023125042"),
        ("004930 23125042", "DE", "493023125042"),
        ("+49 (0)30 23125042", None, "493023125042"),
        ("+4903023125042", None, "493023125042"),
        ("+0012125550142", None, "12125550142"),
        ("+493023125042.0", None, "493023125042"),
        ("+39 06 69812345", None, "390669812345"),
        ("0669812345", "IT", "390669812345"),
        ("8 800 555 35 35", "RU", "78005553535"),
        ("+80012345678", None, "80012345678"),
        ("＋12125550142", None, "12125550142"),
        ("＋１ ２１２ ５５５ ０１４２", None, "12125550142"),
        ("٢١٢٥٥٥٠١٤٢", "US", "12125550142"),
        ("०३० २३१२५०४२", "DE", "493023125042"),
        ("+4９ ٣٠ 23125042", None, "493023125042"),
        ("\u202a+1 212 555 0142\u202c", None, "12125550142"),
    ],
)
def test_written_numbers_are_parsed(text: str, region: str | None, digits: str) -> None:
    assert parse_listed(text, region) == digits


@pytest.mark.parametrize(
    ("text", "region"),
    [
        ("", None),
        ("2125550142", None),
        ("12125550142", None),
        ("1 212 555 0142", None),
        ("646 555 0132", None),
        ("+12125550142*", None),
        ("+1 212 555 0142 (home)", None),
        ("+493023125042.5", None),
        ("+49 30 231250 home", None),
        ("0301 2312504 alt", "DE"),
        ("+43 1 58858 Wien", None),
        ("212-5550 Mom", "US"),
        ("1-800-FLOWERS", "US"),
        ("+49 30 231250/42", None),
        ("030 2312504/2", "DE"),
        ("(212) 555-0142", None),
        ("03023125042", None),
        ("0049 30 23125042", None),
        ("+1 (0)212 555 0142", None),
        ("812", "US"),
        ("2991577", "US"),
        ("3101577", "US"),
        ("1111111111", "US"),
        ("07453775817", "US"),
        ("904842714", "US"),
        ("525556979284", "US"),
        ("212-555-0142 / 212-555-0143", "US"),
        ("2125550142 2125550143", "US"),
        ("Jane 2125550142", "US"),
        ("2.125550142E+09", "US"),
        ("+1.2125550142E10", None),
        ("++12125550142", None),
        ("12125550142+", None),
        ("*31#+12125550142", None),
        ("+99912345678", None),
        ("+01212555014", None),
        ("+123456", None),
        ("+1234567890123456", None),
        ("212555014²", "US"),
        ("٢١٢٥٥٥٠١٤²", "US"),
        ("+1212555014²", None),
        ("+1212555014Ⅱ", None),
        ("9" * 100_000, "US"),
    ],
)
def test_ambiguous_or_invalid_numbers_are_refused(text: str, region: str | None) -> None:
    with pytest.raises(InvalidNumber) as refused:
        parse_listed(text, region)
    assert not text or text not in str(refused.value)


@pytest.mark.parametrize("text", ["(" * 2**20, "(1" * 2**19, "(" * 2**20 + "+12125550142", "+1" + " " * 2**20])
def test_cell_of_a_mebibyte_is_refused_unread(text: str) -> None:
    """A quadratic expression would take minutes for the first one."""
    for read in (parse_listed, numbers.parse_typed):
        with pytest.raises(InvalidNumber, match="is longer than 250 characters"):
            read(text)


@pytest.mark.parametrize("text", ["＋４９ ３０ ２３１２５０４２", "+٤٩ ٣٠ ٢٣١٢٥٠٤٢", "४९३०२३१२५०४२", "4９ ٣٠ 23125042"])
def test_typed_digits_of_every_script_are_read(text: str) -> None:
    for read in (numbers.parse_typed, numbers.parse_searched, numbers.parse_prefix):
        assert read(text) == "493023125042"
    with pytest.raises(InvalidNumber, match="must not hold"):
        numbers.parse_typed("+999 (٠)30 23125042")
    with pytest.raises(InvalidNumber, match="must contain only digits"):
        numbers.parse(text)


def test_number_with_spaces_up_to_the_bound_is_read() -> None:
    padded = "+1 212 555 0142".ljust(numbers.MAX_CELL)
    assert (len(padded), parse_listed(padded), numbers.parse_typed(padded)) == (250, "12125550142", "12125550142")


@pytest.mark.parametrize("text", ["(2)+1", "((+1", "(2\n(+1", "1(2(+3)"])
def test_second_number_after_a_parenthesis_is_refused(text: str) -> None:
    with pytest.raises(InvalidNumber):
        parse_listed(text, "US")


def samples() -> list[str]:
    """Examples of every region and type with other last digits, country codes with anything behind them, and any
    digits: the same ones in every run."""
    rng = random.Random(9)
    regions = sorted(phonenumbers.SUPPORTED_REGIONS)
    kinds = [phonenumbers.PhoneNumberType.FIXED_LINE, phonenumbers.PhoneNumberType.MOBILE]
    found: list[str] = []
    while len(found) < SAMPLES:
        length = rng.randrange(5, 12)
        match rng.randrange(4):
            case 0:
                digits = str(rng.randrange(10**6, 10**15))
            case 1:
                code = str(rng.choice(list(COUNTRY_CODE_TO_REGION_CODE)))
                digits = code + "".join(rng.choices("0123456789", k=length))
            case _:
                example = phonenumbers.example_number_for_type(rng.choice(regions), rng.choice(kinds))
                if example is None:
                    continue
                digits = f"{example.country_code}{phonenumbers.national_significant_number(example)}"
                digits = digits[:-5] + "".join(rng.choices("0123456789", k=5))
        if 7 <= len(digits) <= 15:
            found.append(digits)
    return sorted(found)


def is_valid(digits: str) -> bool:
    try:
        number = phonenumbers.parse(f"+{digits}")
    except NumberParseException:
        return False
    unchanged = digits == f"{number.country_code}{phonenumbers.national_significant_number(number)}"
    return unchanged and phonenumbers.is_valid_number(number)


@pytest.mark.slow
def test_100_000_numbers_are_classified_like_libphonenumber() -> None:
    verdicts = [(is_valid(digits), in_plan(digits)) for digits in samples()]
    valid = sum(one for one, _ in verdicts)
    assert valid > SAMPLES / 4
    assert verdicts.count((True, False)) == 0
    # Blocks that the plan has room for and nobody was given.
    assert verdicts.count((False, True)) < 0.08 * SAMPLES


@pytest.mark.parametrize("region", ["US", "DE", "GB", "IT", "RU", "MX", "AR", "BR", "AU", "IN", "HU", "CI"])
def test_national_digits_are_read_as_phonenumbers_reads_them(region: str) -> None:
    code, fits, _ = numbers._national(region) or pytest.fail(region)
    rng = random.Random(7)
    quick = 0
    for _ in range(2000):
        text = "".join(rng.choices("0123456789", k=rng.randrange(7, 12)))
        try:
            number = phonenumbers.parse(text, region)
            parsed = f"{number.country_code}{phonenumbers.national_significant_number(number)}"
        except NumberParseException:
            parsed = ""
        try:
            assert parse_listed(text, region) == parsed
            quick += parsed == code + text and fits(text) is not None
        except InvalidNumber:
            assert not (7 <= len(parsed) <= 15 and in_plan(parsed))
    assert quick > 50


@pytest.mark.parametrize(
    ("digits", "text"),
    [
        ("12125550100", "+1 212 555 0100"),
        ("493023125042", "+49 30 23125042"),
        ("390669812345", "+39 06 6981 2345"),
        ("5491123456789", "+54 9 11 2345 6789"),
        ("999123456789", "+999123456789"),
        ("4930231", "+49 30 231"),
    ],
)
def test_numbers_are_formatted_for_people(digits: str, text: str) -> None:
    assert numbers.formatted(digits) == text


def test_formatted_number_has_all_digits_and_no_others() -> None:
    random.seed(4)
    for _ in range(SAMPLES // 10):
        digits = str(random.randrange(10**6, 10**15))
        assert numbers.formatted(digits).replace(" ", "") == f"+{digits}"


def test_region_in_requests_is_the_main_one_if_unknown() -> None:
    regions = {"12025550171": "US", "14165550171": "CA", "16245550171": "US", "8831234567890": None, "9991234567": None}
    assert {number: numbers.FORMATS["region"](number) for number in regions} == regions
