"""The FCC's table of unwanted calls, with both of its headers, and without data about the complainant."""

import io
from datetime import date

import pytest

from phonebook.imports.readers import fcc_csv
from phonebook.imports.readers.base import ComplaintRow, Rejected

TODAY = date(2026, 3, 6)
DAY = date(2021, 8, 12)
LABELS = (
    "Ticket ID,Date of Issue,Time of Issue,Method,Issue,Caller ID Number,Type of Call or Messge,"
    "Advertiser Business Number,State,Zip,Location (Center point of the Zip Code)"
)
API_NAMES = (
    "id,issue_date,issue_time,issue_type,method,issue,caller_id_number,type_of_call_or_messge,"
    "advertiser_business_phone_number,state,zip,location_1"
)


def read(text: str) -> list[ComplaintRow | Rejected]:
    return list(fcc_csv.FCCReader.read(iter(io.StringIO(text)), source="fcc", today=TODAY))


def one(text: str) -> ComplaintRow:
    (row,) = read(text)
    assert isinstance(row, tuple), row
    return row


def row(
    ticket: str = "1000001", issued: str = "08/12/2021", phone: str = "212-555-0142", type_of_call: str = "Live Voice"
) -> str:
    return f"{LABELS}\n{ticket},{issued},1:17 p.m.,Wired,Unwanted Calls,{phone},{type_of_call},None,CT,06712,None\n"


def test_location_over_several_lines_is_one_cell() -> None:
    first, second = row(), row("1000002", phone="212-555-0143").splitlines()[1]
    assert read(first.replace("06712,None", '06712,"CT 06712\n(41.5, -72.97)"') + second + "\n") == [
        (2, 12125550142, "fcc", DAY, 1, 0, "Live Voice", "1000001"),
        (4, 12125550143, "fcc", DAY, 1, 0, "Live Voice", "1000002"),
    ]


def test_fcc_download() -> None:
    call = "1:17 p.m.,Wired,Unwanted Calls,212-555-0142,Prerecorded Voice,312-555-0199"
    text = (
        f"{LABELS}\n"
        f'1000001,08/12/2021,{call},CT,06712,"CT 06712 (41.5, -72.97)"\n'
        "1000002,08/12/2021,None,Wireless,Unwanted Calls,312-555-0143,Live Voice,None,None,None,None\n"
        "1000003,08/12/2021,1:17 p.m.,Wired,Unwanted Calls,None,Live Voice,312-555-0199,CT,06712,None\n"
        "1000004,12/01/2021,1:17 p.m.,Wired,Unwanted Calls,415-555-0144,None,none,CT,06712,\n"
        f"1000001,08/12/2021,{call},CT,06712,\n"
        "None,08/12/2021,1:17 p.m.,Wired,Unwanted Calls,212-555-0142,Text Message,None,CT,06712,None\n"
        "1000006,None,1:17 p.m.,Wired,Unwanted Calls,212-555-0142,Text Message,None,CT,06712,None\n"
    )
    assert read(text) == [
        (2, 12125550142, "fcc", DAY, 1, 1, "Prerecorded Voice", "1000001"),
        (3, 13125550143, "fcc", DAY, 1, 0, "Live Voice", "1000002"),
        Rejected(4, "no number"),
        (5, 14155550144, "fcc", date(2021, 12, 1), 1, 0, "", "1000004"),
        (6, 12125550142, "fcc", DAY, 1, 1, "Prerecorded Voice", "1000001"),
        Rejected(7, "no ticket id", "1********42"),
        Rejected(8, "no date such as 2026-01-31", "1********42"),
    ]


def test_file_with_api_names() -> None:
    text = (
        f"{API_NAMES}\n"
        '"1000001","2021-08-12T00:00:00.000","1:17 p.m.","Phone","Wired","Unwanted Calls","212-555-0142",'
        '"Prerecorded Voice","312-555-0199","CT","06712","POINT (-72.97 41.5)"\n'
        "1000002,2021-08-12T00:00:00.000,,Phone,Wired,Unwanted Calls,NONE,Abandoned Calls,,CT,06712,\n"
    )
    assert read(text) == [
        (2, 12125550142, "fcc", DAY, 1, 1, "Prerecorded Voice", "1000001"),
        Rejected(3, "no number"),
    ]


@pytest.mark.parametrize(
    ("header", "cells"),
    [
        ("ID,Issue_Date,Caller_ID_Number", "7,2021-08-12,2125550142"),
        ("caller id number;ticket id;date of issue", "+1 212 555 0142;7;8/12/2021"),
        ('\ufeff"Ticket  ID",Date of Issue,Caller ID Number', "7,2021-08-12 00:00:00,(212) 555-0142"),
    ],
)
def test_only_ticket_day_and_number_are_required(header: str, cells: str) -> None:
    assert read(f"{header}\n{cells}\n") == [(2, 12125550142, "fcc", DAY, 1, 0, "", "7")]


@pytest.mark.parametrize(
    "column", ["Type of Call or Messge", "Type of Call or Message(s)", "type_of_call_or_message", "TYPE OF CALL"]
)
def test_type_of_call_is_found_in_any_spelling(column: str) -> None:
    text = f"Ticket ID,Date of Issue,Caller ID Number,{column}\n7,08/12/2021,212-555-0142,Live  Voice\n"
    assert read(text) == [(2, 12125550142, "fcc", DAY, 1, 0, "Live Voice", "7")]


@pytest.mark.parametrize(
    ("type_of_call", "robocalls"),
    [
        ("Prerecorded Voice", 1),
        ("prerecorded voice message", 1),
        ("Live Voice", 0),
        ("Not Prerecorded Voice", 0),
        ("", 0),
    ],
)
def test_only_prerecorded_voice_is_a_robocall(type_of_call: str, robocalls: int) -> None:
    assert one(row(type_of_call=type_of_call))[4:6] == (1, robocalls)


@pytest.mark.parametrize(
    "issued",
    ["08/12/2021", "8/12/2021", "2021-08-12", "2021-08-12T00:00:00.000", "08/12/2021 12:00:00 AM", " 08/12/2021 "],
)
def test_month_comes_first_in_dates_with_slashes(issued: str) -> None:
    assert read(row(issued=issued)) == [(2, 12125550142, "fcc", DAY, 1, 0, "Live Voice", "1000001")]


@pytest.mark.parametrize(
    "issued", ["", "none", "13/08/2021", "08/12/21", "12.08.2021", "08/12/2021x", "٠٨/12/2021", "00/00/0000"]
)
def test_complaint_without_a_day_is_rejected(issued: str) -> None:
    assert read(row(issued=issued)) == [Rejected(2, "no date such as 2026-01-31", "1********42")]


@pytest.mark.parametrize(
    ("phone", "reason"),
    [
        ("None", "no number"),
        (" nOnE ", "no number"),
        ("", "no number"),
        ("-", "no number"),
        ("555-0142", "number does not fit its country's numbering plan"),
        ("+44 161 496 0142", "number does not fit its country's numbering plan"),
        ("000-000-0000", "number does not fit its country's numbering plan"),
        ("Private", "number is no phone number"),
    ],
)
def test_number_outside_the_nanp_is_rejected(phone: str, reason: str) -> None:
    assert read(row(phone=phone)) == [Rejected(2, reason)]
