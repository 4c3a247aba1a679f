"""The FTC's daily file: each row is one complaint, and invalid numbers are rejected."""

import io
from datetime import date

import pytest

from phonebook.imports.readers import ftc_csv
from phonebook.imports.readers.base import NOT_UTF8, ComplaintRow, Rejected
from phonebook.imports.readers.csv_rows import TOO_MANY_CELLS, UNCLOSED_QUOTE

TODAY = date(2026, 3, 6)
HEADER = (
    "Company_Phone_Number,Created_Date,Violation_Date,Consumer_City,Consumer_State,Consumer_Area_Code,Subject,"
    "Recorded_Message_Or_Robocall"
)
NOT_IN_PLAN = "number does not fit its country's numbering plan"


def read(text: str) -> list[ComplaintRow | Rejected]:
    return list(ftc_csv.FTCReader.read(iter(io.StringIO(text)), source="ftc", today=TODAY))


def one(text: str) -> ComplaintRow:
    (row,) = read(text)
    assert isinstance(row, tuple), row
    return row


def row(
    phone: str = "2125550142", created: str = "2026-03-05 00:03:04", subject: str = "Other", robocall: str = "N"
) -> str:
    return f"{HEADER}\n{phone},{created},2026-03-04 23:01:00,,,212,{subject},{robocall}\n"


def test_ftc_file() -> None:
    debt = "Reducing your debt (credit cards, mortgage, student loans)"
    text = (
        f"{HEADER}\n"
        "2125550142,2026-03-05 00:03:04,2026-03-04 23:01:00,,,888,Vacation  & timeshares,Y\n"
        f'3125550143,2026-03-05 00:06:28,2026-02-04 16:25:00,MOUNT PROSPECT,Illinois,773,"{debt}",Y\n'
        "2025550144,2026-03-05 00:09:50,2026-03-04 10:12:00,Woodbridge,Virginia,703,Dropped call or no message,N\n"
        "2125550142,2026-03-06 23:59:59,2026-03-06 23:01:00,,,,No Subject Provided,\n"
        ",2026-03-05 00:11:00,2026-03-04 10:12:00,Woodbridge,Virginia,703,Other,N\n"
        "4155550145,2026-03-05 00:12:00,,,,,,y\n"
    )
    assert read(text) == [
        (2, 12125550142, "ftc", date(2026, 3, 5), 1, 1, "Vacation & timeshares", ""),
        (3, 13125550143, "ftc", date(2026, 3, 5), 1, 1, debt, ""),
        (4, 12025550144, "ftc", date(2026, 3, 5), 1, 0, "Dropped call or no message", ""),
        (5, 12125550142, "ftc", date(2026, 3, 6), 1, 0, "", ""),
        Rejected(6, "no number"),
        (7, 14155550145, "ftc", date(2026, 3, 5), 1, 1, "", ""),
    ]


@pytest.mark.parametrize(
    ("phone", "reason"),
    [
        ("812", "number must have 7 to 15 digits"),
        ("2991577", NOT_IN_PLAN),
        ("1111111111", NOT_IN_PLAN),
        ("07453775817", NOT_IN_PLAN),
        ("904842714", NOT_IN_PLAN),
        ("525556979284", NOT_IN_PLAN),
        ("+441614960142", NOT_IN_PLAN),
        ("1125550142", NOT_IN_PLAN),
        ("0125550142", NOT_IN_PLAN),
        ("", "no number"),
        ("  ", "no number"),
        ("Unknown", "number is no phone number"),
        ("2.12555E+09", "number is no phone number"),
        ("9" * 5000, "number is longer than 250 characters"),
    ],
)
def test_invalid_number_is_rejected_and_not_printed(phone: str, reason: str) -> None:
    assert read(row(phone)) == [Rejected(2, reason)]


@pytest.mark.parametrize(
    "phone", ["2125550142", "12125550142", "+12125550142", "212-555-0142", "(212) 555-0142", " 2125550142 "]
)
def test_number_is_read_with_or_without_its_country_code(phone: str) -> None:
    assert one(row(phone))[1] == 12125550142


@pytest.mark.parametrize("created", ["2026-03-05 00:03:04", "2026-03-05", " 2026-03-05 23:59:59 "])
def test_day_is_that_of_the_creation(created: str) -> None:
    assert read(row(created=created)) == [(2, 12125550142, "ftc", date(2026, 3, 5), 1, 0, "Other", "")]


@pytest.mark.parametrize("created", ["", "yesterday", "2026-02-30 00:00:00", "2026-03-051", "3/5/2026 0:03"])
def test_complaint_without_a_day_is_rejected(created: str) -> None:
    assert read(row(created=created)) == [Rejected(2, "no date such as 2026-01-31", "1********42")]


@pytest.mark.parametrize(
    ("cell", "subject"),
    [
        ("Work from home  & other ways to make money", "Work from home & other ways to make money"),
        ("A subject of next year", "A subject of next year"),
        ("no subject provided ", ""),
        ("", ""),
        ("x" * 150, "x" * 100),
        ("x" * 99 + " y", "x" * 99),
        ("Oth\x00er\x1b", "Other"),
    ],
)
def test_subject_is_the_ftcs_text(cell: str, subject: str) -> None:
    assert one(row(subject=cell))[6] == subject


@pytest.mark.parametrize(("cell", "robocalls"), [("Y", 1), ("y ", 1), ("N", 0), ("", 0), ("?", 0)])
def test_only_y_is_a_robocall(cell: str, robocalls: int) -> None:
    assert one(row(robocall=cell))[4:6] == (1, robocalls)


def test_malformed_row_costs_only_its_own_line() -> None:
    text = (
        f"{HEADER}\n"
        "2125550142,2026-03-05,,Washington, DC,DC,202,Other,N\n"
        '2125550142,2026-03-05,,"Washington,DC,202,Other,N\n'
        "2125550142,2026-03-05,,Montr\udce9al,,,Other,N\n"
        "\n"
        "2125550142\n"
        "2125550142,2026-03-05\r\n"
        "\n"
    )
    assert read(text) == [
        Rejected(2, TOO_MANY_CELLS),
        Rejected(3, UNCLOSED_QUOTE),
        Rejected(4, NOT_UTF8),
        Rejected(6, "no date such as 2026-01-31", "1********42"),
        (7, 12125550142, "ftc", date(2026, 3, 5), 1, 0, "", ""),
    ]


def test_columns_are_found_by_name() -> None:
    assert read("CREATED_DATE;x;company_phone_number\n2026-03-05;y;2125550142\n") == [
        (2, 12125550142, "ftc", date(2026, 3, 5), 1, 0, "", "")
    ]
