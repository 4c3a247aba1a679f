"""The files of the FTC and the FCC: each row is one complaint, and nothing about the complainant is read."""

import io
from datetime import date
from typing import Any

import pytest

from contrib.file_formats.fcc_csv import FCCReader
from contrib.file_formats.ftc_csv import FTCReader
from phonebook.imports.readers.base import NOT_UTF8, ComplaintRow, Rejected
from phonebook.imports.readers.csv_rows import TOO_MANY_CELLS, UNCLOSED_QUOTE

TODAY = date(2026, 3, 6)
DAY = date(2021, 8, 12)
FTC = (
    "Company_Phone_Number,Created_Date,Violation_Date,Consumer_City,Consumer_State,Consumer_Area_Code,Subject,"
    "Recorded_Message_Or_Robocall"
)
FCC = (
    "Ticket ID,Date of Issue,Time of Issue,Method,Issue,Caller ID Number,Type of Call or Messge,"
    "Advertiser Business Number,State,Zip,Location (Center point of the Zip Code)"
)
FCC_API = (
    "id,issue_date,issue_time,issue_type,method,issue,caller_id_number,type_of_call_or_messge,"
    "advertiser_business_phone_number,state,zip,location_1"
)
NOT_IN_PLAN = "number does not fit its country's numbering plan"
NO_DAY = "no date such as 2026-01-31"


def ftc(text: str) -> list[ComplaintRow | Rejected]:
    return list(FTCReader.read(iter(io.StringIO(text)), source="ftc", today=TODAY))


def fcc(text: str) -> list[ComplaintRow | Rejected]:
    return list(FCCReader.read(iter(io.StringIO(text)), source="fcc", today=TODAY))


def ftc_row(phone: str = "2125550142", created: str = "2026-03-05", subject: str = "Other", robocall: str = "N") -> Any:
    """What is read of one row."""
    (row,) = ftc(f"{FTC}\n{phone},{created},2026-03-04 23:01:00,,,212,{subject},{robocall}\n")
    return row


def fcc_row(issued: str = "08/12/2021", phone: str = "212-555-0142", about: str = "Live Voice") -> Any:
    (row,) = fcc(f"{FCC}\n7,{issued},1:17 p.m.,Wired,Unwanted Calls,{phone},{about},None,CT,06712,None\n")
    return row


def test_ftc_file() -> None:
    debt = "Reducing your debt (credit cards, mortgage, student loans)"
    text = (
        f"{FTC}\n"
        "2125550142,2026-03-05 00:03:04,2026-03-04 23:01:00,,,888,Vacation  & timeshares,Y\n"
        f'3125550143,2026-03-05 00:06:28,2026-02-04 16:25:00,MOUNT PROSPECT,Illinois,773,"{debt}",Y\n'
        "2125550142,2026-03-06 23:59:59,2026-03-06 23:01:00,,,,No Subject Provided,\n"
        ",2026-03-05 00:11:00,2026-03-04 10:12:00,Woodbridge,Virginia,703,Other,N\n"
        "2125550142,2026-03-05,,Washington, DC,DC,202,Other,N\n"
        '2125550142,2026-03-05,,"Washington,DC,202,Other,N\n'
        "2125550142,2026-03-05,,Montr\udce9al,,,Other,N\n"
        "\n"
        "2125550142\n"
        "2125550142,2026-03-05\r\n"
    )
    assert ftc(text) == [
        (2, 12125550142, "ftc", date(2026, 3, 5), 1, 1, "Vacation & timeshares", ""),
        (3, 13125550143, "ftc", date(2026, 3, 5), 1, 1, debt, ""),
        (4, 12125550142, "ftc", date(2026, 3, 6), 1, 0, "", ""),
        Rejected(5, "no number"),
        Rejected(6, TOO_MANY_CELLS),
        Rejected(7, UNCLOSED_QUOTE),
        Rejected(8, NOT_UTF8),
        Rejected(10, NO_DAY, "1********42"),
        (11, 12125550142, "ftc", date(2026, 3, 5), 1, 0, "", ""),
    ]


def test_fcc_download() -> None:
    call = "1:17 p.m.,Wired,Unwanted Calls,212-555-0142,Prerecorded Voice,312-555-0199"
    text = (
        f"{FCC}\n"
        f'1000001,08/12/2021,{call},CT,06712,"CT 06712\n(41.5, -72.97)"\n'
        "1000002,08/12/2021,None,Wireless,Unwanted Calls,312-555-0143,Live Voice,None,None,None,None\n"
        "1000003,08/12/2021,1:17 p.m.,Wired,Unwanted Calls,None,Live Voice,312-555-0199,CT,06712,None\n"
        "1000004,12/01/2021,1:17 p.m.,Wired,Unwanted Calls,415-555-0144,None,none,CT,06712,\n"
        "None,08/12/2021,1:17 p.m.,Wired,Unwanted Calls,212-555-0142,Text Message,None,CT,06712,None\n"
        "1000006,None,1:17 p.m.,Wired,Unwanted Calls,212-555-0142,Text Message,None,CT,06712,None\n"
    )
    assert fcc(text) == [
        (2, 12125550142, "fcc", DAY, 1, 1, "Prerecorded Voice", "1000001"),
        (4, 13125550143, "fcc", DAY, 1, 0, "Live Voice", "1000002"),
        Rejected(5, "no number"),
        (6, 14155550144, "fcc", date(2021, 12, 1), 1, 0, "", "1000004"),
        Rejected(7, "no ticket id", "1********42"),
        Rejected(8, NO_DAY, "1********42"),
    ]


def test_columns_are_found_by_name() -> None:
    assert ftc("CREATED_DATE;x;company_phone_number\n2026-03-05;y;2125550142\n") == [
        (2, 12125550142, "ftc", date(2026, 3, 5), 1, 0, "", "")
    ]
    for header, cells in (
        ("ID,Issue_Date,Caller_ID_Number", "7,2021-08-12,2125550142"),
        ("caller id number;ticket id;date of issue", "+1 212 555 0142;7;8/12/2021"),
        ('\ufeff"Ticket  ID",Date of Issue,Caller ID Number', "7,2021-08-12 00:00:00,(212) 555-0142"),
    ):
        assert fcc(f"{header}\n{cells}\n") == [(2, 12125550142, "fcc", DAY, 1, 0, "", "7")]


@pytest.mark.parametrize(
    "column", ["Type of Call or Messge", "Type of Call or Message(s)", "type_of_call_or_message", "TYPE OF CALL"]
)
def test_type_of_call_is_found_in_any_spelling(column: str) -> None:
    text = f"Ticket ID,Date of Issue,Caller ID Number,{column}\n7,08/12/2021,212-555-0142,Live  Voice\n"
    assert fcc(text) == [(2, 12125550142, "fcc", DAY, 1, 0, "Live Voice", "7")]


@pytest.mark.parametrize(
    ("phone", "reason"),
    [
        ("07453775817", NOT_IN_PLAN),
        ("  ", "no number"),
        ("9" * 5000, "number is longer than 250 characters"),
    ],
)
def test_number_outside_the_nanp_is_rejected_and_not_printed(phone: str, reason: str) -> None:
    assert ftc_row(phone) == fcc_row(phone=phone) == Rejected(2, reason)


@pytest.mark.parametrize(
    "issued",
    ["08/12/2021", "8/12/2021", "2021-08-12", "2021-08-12T00:00:00.000", "08/12/2021 12:00:00 AM", " 08/12/2021 "],
)
def test_month_comes_first_in_the_fccs_dates_with_slashes(issued: str) -> None:
    assert fcc_row(issued=issued)[3] == DAY


@pytest.mark.parametrize(
    "day", ["", "yesterday", "2026-02-30 00:00:00", "2026-03-051", "13/08/2021", "08/12/21", "12.08.2021", "٠٨/12/2021"]
)
def test_complaint_without_a_day_is_rejected(day: str) -> None:
    assert ftc_row(created=day) == fcc_row(issued=day) == Rejected(2, NO_DAY, "1********42")
