"""vCards: the exports of phones and mail programs, and dirt of each kind.

The files are written by hand after real ones. The lines of their numbers and faults are counted by hand.
"""

import tracemalloc
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from lookup.datasets import reading, vcard
from lookup.datasets.reading import ContactRow, Rejected
from tests.lookup.datasets.cards import NUMBER, read

pytestmark = pytest.mark.once

MASKED = "1********42"


def of_card(*properties: str | bytes, region: str | None = None) -> list[ContactRow | Rejected]:
    """What a card comes to; the first property stands in line 2."""
    inside = (line if isinstance(line, bytes) else line.encode() for line in properties)
    return read(b"\n".join([b"BEGIN:VCARD", *inside, b"END:VCARD"]), region)


def name_of(*properties: str | bytes) -> str:
    ((_, number, name, location),) = rows(of_card(*properties, f"TEL:+{NUMBER}"))
    assert (number, location) == (NUMBER, "")
    return name


def location_of(*properties: str | bytes) -> str:
    ((_, number, name, location),) = rows(of_card(*properties, f"TEL:+{NUMBER}"))
    assert (number, name) == (NUMBER, "")
    return location


def rows(found: Iterable[ContactRow | Rejected]) -> list[ContactRow]:
    ours = [row for row in found if not isinstance(row, Rejected)]
    assert ours == found
    return ours


@pytest.mark.parametrize("line", ["BEGIN:VCARD", "begin:vcard\r\n", "  Begin:vCard \n", "BEGIN : VCARD"])
def test_a_file_of_cards_is_known_by_its_first_line(line: str) -> None:
    assert vcard.recognises(line)


@pytest.mark.parametrize(
    "line", ["", "number,name", "BEGIN:VCALENDAR", "item1.BEGIN:VCARD", "BEGIN:VCARDS", "END:VCARD", "VERSION:3.0"]
)
def test_another_first_line_is_no_card(line: str) -> None:
    assert not vcard.recognises(line)


# --- exports --------------------------------------------------------------------------------------------------------


def test_an_iphone_writes_groups_labels_and_pictures() -> None:
    file = """\
BEGIN:VCARD
VERSION:3.0
PRODID:-//Apple Inc.//iPhone OS 17.5.1//EN
N:Doe;Jane;;;
FN:Jane Doe
ORG:Example Widgets\\, Inc.;
item1.EMAIL;type=INTERNET;type=pref:jane@example.com
item1.X-ABLabel:_$!<Other>!$_
TEL;type=CELL;type=VOICE;type=pref:+1 (212) 555-0142
item2.TEL:+44 161 496 0142
item2.X-ABLabel:Uncle's place
TEL;type=HOME;type=VOICE:\u202a+1\u00a0(212)\u00a0555‑0142\u202c
item3.ADR;type=HOME;type=pref:;;1 Example Street\\nApt. 2;Springfield;IL;
 62701;United States
item3.X-ABADR:us
X-SOCIALPROFILE;type=twitter;x-user=jane:http://twitter.com/jane
PHOTO;ENCODING=b;TYPE=JPEG:/9j/4AAQSkZJRgABAQAASABIAAD/4QBYRXhpZgAATU0AKgAA
 AAgAAgESAAMAAAABAAEAAIdpAAQAAAABAAAAJgAAAAAAA6ABAAMAAAABAAEAAKACAAQAAAAB
 TEL:+12125550199
 AAAAAKADAAQAAAABAAAAAAAAAAD/7QA4UGhvdG9zaG9wIDMuMAA4QklNBAQAAAAAAAA4QklN
TEL;type=FAX:2125550143
END:VCARD
BEGIN:VCARD
VERSION:3.0
N:;;;;
FN:
TEL;type=CELL:+1 212 555 0144
END:VCARD
"""
    assert read(file) == [
        (9, NUMBER, "Jane Doe", "Springfield, IL"),
        (10, 441614960142, "Jane Doe", "Springfield, IL"),
        Rejected(21, "number has no country code", "212*****43"),
        Rejected(27, reading.NO_NAME_OR_PLACE, "1********44"),
    ]


def test_an_android_phone_writes_quoted_printable() -> None:
    file = """\
BEGIN:VCARD
VERSION:2.1
N;CHARSET=UTF-8;ENCODING=QUOTED-PRINTABLE:=D0=98=D0=B2=D0=B0=D0=BD=D0=BE=D0=B2;=D0=90=D0=BD=D0=BD=D0=B0;;;
FN;CHARSET=UTF-8;ENCODING=QUOTED-PRINTABLE:=D0=90=D0=BD=D0=BD=D0=B0=20=D0=9F=
=D0=B5=D1=82=D1=80=D0=BE=D0=B2=D0=BD=D0=B0=20=D0=98=D0=B2=D0=B0=D0=BD=D0=BE=
=D0=B2=D0=B0
TEL;CELL;PREF:+442079460142
TEL;X-CUSTOM(CHARSET=UTF-8,ENCODING=QUOTED-PRINTABLE,=D0=94):+442079460143
TEL;WORK;FAX:+49 30 23125042
ADR;HOME;CHARSET=UTF-8;ENCODING=QUOTED-PRINTABLE:;;=31=32=20=D0=A3;=D0=9B=D0=BE=D0=BD=D0=B4=D0=BE=
=D0=BD;;;
NOTE;CHARSET=UTF-8;ENCODING=QUOTED-PRINTABLE:=D0=92=D1=81=D0=B5=0A=
TEL:+442079460199=
END is near
X-ANDROID-CUSTOM:vnd.android.cursor.item/nickname;;;;;;;;;;;;;;
PHOTO;ENCODING=BASE64;JPEG:/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAAEBAQEBAQEBAQEBAQ
EBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQ==

TEL;HOME:+442079460144
END:VCARD
"""
    name, location = "Анна Петровна Иванова", "Лондон"
    assert read(file) == [
        (7, 442079460142, name, location),
        (8, 442079460143, name, location),
        (9, 493023125042, name, location),
        (19, 442079460144, name, location),
    ]


def test_an_old_nokia_writes_the_bytes_of_its_charset() -> None:
    file = (
        b"BEGIN:VCARD\nVERSION:2.1\n"
        b"N;CHARSET=ISO-8859-1:M\xfcller;J\xf6rg\n"
        b"ADR;HOME;CHARSET=ISO-8859-1:;;Stra\xdfe 1;K\xf6ln;;;\n"
        b"TEL;PREF;CELL;VOICE:+493023125042\n"
        b"TEL;HOME;VOICE:030 23125043\n"
        b"END:VCARD\n"
        b"BEGIN:VCARD\nVERSION:2.1\n"
        b"N:M\xfcller;Jane\n"
        b"NOTE:Stra\xdfe\n"
        b"TEL;CELL:+493023125044\n"
        b"END:VCARD\n"
        b"BEGIN:VCARD\nVERSION:2.1\n"
        b"N:Doe;Jane\n"
        b"NOTE:Stra\xdfe\n"
        b"TEL;CELL:+493023125045\n"
        b"TEL;HOME:\xfc\n"
        b"END:VCARD\n"
    )
    assert read(file, region="DE") == [
        (5, 493023125042, "Jörg Müller", "Köln"),
        (6, 493023125043, "Jörg Müller", "Köln"),
        Rejected(12, reading.NOT_UTF8, "49********44"),
        (18, 493023125045, "Jane Doe", ""),
        Rejected(19, reading.NOT_UTF8),
    ]


def test_outlook_writes_labels_of_many_lines() -> None:
    file = """\
BEGIN:VCARD
VERSION:2.1
N;LANGUAGE=en-us:Doe;Jane;Q.;Dr.;Jr.
FN:Dr. Jane Q. Doe Jr.
ORG:Example Widgets;Sales
TITLE:Head of\\; all
TEL;WORK;VOICE:(212) 555-0142
TEL;CELL;VOICE:
TEL;WORK;FAX:+1 (212) 555-0143
ADR;WORK;PREF:;;1 Example Street;Springfield;IL;62701;United States of America
LABEL;WORK;PREF;ENCODING=QUOTED-PRINTABLE:1 Example Street=0D=0A=
Springfield, IL  62701=0D=0A=
United States of America
X-MS-OL-DEFAULT-POSTAL-ADDRESS:2
X-MS-CARDPICTURE;TYPE=JPEG;ENCODING=BASE64:
 /9j/4AAQSkZJRgABAQEAYABgAAD/2wBDAAYEBQYFBAYGBQYHBwYIChAKCgkJChQODwwQFxQY
 GBcUFhYaHSUfGhsjHBYWICwgIyYnKSopGR8tMC0oMCUoKSj/2Q==

REV:20260131T120000Z
END:VCARD
BEGIN:VCARD
VERSION:3.0
N:Roe;Richard
FN:Richard Roe
TEL;TYPE=WORK,VOICE;TYPE=PREF:+1 212 555 0144
ADR;TYPE=WORK:;;;;;;Germany
END:VCARD
"""
    assert read(file, region="US") == [
        (7, NUMBER, "Dr. Jane Q. Doe Jr.", "Springfield, IL"),
        (9, 12125550143, "Dr. Jane Q. Doe Jr.", "Springfield, IL"),
        (25, 12125550144, "Richard Roe", "Germany"),
    ]


def test_version_4_writes_uris_and_quoted_lists() -> None:
    file = """\
BEGIN:VCARD
VERSION:4.0
UID:urn:uuid:4fbe8971-0bc3-424c-9c26-36c3e1eff6b1
KIND:individual
FN;PREF=2:Jane Doe
FN;PREF=1:J. Doe
N:Doe;Jane;;;
TEL;VALUE=uri;PREF=1;TYPE="voice,home":tel:+1-212-555-0142;ext=9
TEL;TYPE="work,x:y;z,fax";VALUE=uri:TEL:555-0143;phone-context=+1-212
TEL;VALUE=uri:tel:%2B1%20(212)%20555.0144
TEL;VALUE=uri:tel:2125550145;phone-context=example.com
TEL;VALUE=uri:sip:jane@example.com
TEL;VALUE=text:+1 212 555 0146
ADR;TYPE=home;LABEL="Box 1:\\n
 1 Example Street; Elsewhere":;;1 Example Street;Elsewhere;;;
ADR;TYPE=work;PREF=1:;;1 Example Street;Springfield;IL;62701;USA
PHOTO:data:image/jpeg;base64,/9j/4AAQSkZJRgABAQAAAQABAAD
 TEL:+12125550199
END:VCARD
"""
    name, location = "Jane Doe", "Springfield, IL"
    assert read(file) == [
        (8, NUMBER, name, location),
        (9, 12125550143, name, location),
        (10, 12125550144, name, location),
        Rejected(11, "number has no country code"),
        Rejected(12, "number is no phone number"),
        (13, 12125550146, name, location),
    ]


def test_a_company_goes_by_its_name() -> None:
    file = """\
BEGIN:VCARD
VERSION:3.0
N:;;;;
FN:
ORG:Example Widgets\\, Inc.;Sales;East
X-ABShowAs:COMPANY
TEL;type=MAIN:+1 212 555 0142
END:VCARD
"""
    assert read(file) == [(7, NUMBER, "Example Widgets, Inc.", "")]


# --- names ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("properties", "name"),
    [
        (["FN:Jane"], "Jane"),
        (["item1.fn;language=en:Jane"], "Jane"),
        (["ORG:Widgets", "N:Doe;Jane", "FN:Jane D."], "Jane D."),
        (["FN: ", "FN:Jane", "FN:June"], "Jane"),
        (["FN:\u200e", "N:Doe;Jane;Q.;Dr.;Jr."], "Dr. Jane Q. Doe Jr."),
        (["N:Doe;Jane"], "Jane Doe"),
        (["N:Doe"], "Doe"),
        (["N:;;;;", "N:Doe;Jane;;;;;;"], "Jane Doe"),
        (["ORG:;Sales", "ORG:Widgets;Sales"], "Widgets"),
        (["N:Doe\\;Roe;Jane\\, Anne\\\\;O\\nP"], "Jane, Anne\\ O P Doe;Roe"),
        (["VERSION:2.1", "N:Doe\\;Roe;Jane\\, Anne;C\\nn"], "Jane, Anne C\\nn Doe;Roe"),
        (["VERSION:2.1", "N:Doe\\\\;Roe;Jane"], "Jane Doe\\;Roe"),
        (["VERSION:2.1", "FN:Doe\\; Jane\\\\"], "Doe; Jane\\\\"),
        (["FN:\\N\\n Jane\\:\\, the \\x\\"], "Jane:, the \\x\\"),
        (["FN:Ja\u200dne\tDoe\x07"], "Ja\u200dne Doe"),
        (["FN:" + "x" * 300], "x" * 200),
        (["FN:Ja", "\tne", " ", " Doe"], "JaneDoe"),
        (["FN:Ja", " ne", "  Doe"], "Jane Doe"),
        # In 2.1 a line is folded where it has white space, and keeps it.
        (["VERSION:2.1", "FN:Jane", " Doe"], "Jane Doe"),
        (["FN;X-A=\"a:b;c,\":Jane"], "Jane"),
        (["FN;X-A=\"a;", " b:c\":Jane"], "Jane"),
        (["FN;X-A=\"never closed:Jane"], "Jane"),
        (["NICKNAME:June", "FN:Jane"], "Jane"),
        (["FN:Jane \"Q: \" Doe"], 'Jane "Q: " Doe'),
    ],
)  # fmt: skip
def test_a_name_is_read(properties: list[str], name: str) -> None:
    assert name_of(*properties) == name


@pytest.mark.parametrize(
    ("properties", "name"),
    [
        (["FN;QUOTED-PRINTABLE:J=C3=B6rg"], "Jörg"),
        (["VERSION:3.0", "FN;ENCODING=quoted-printable:J=C3=B6rg=0D=0AM."], "Jörg M."),
        (["FN;ENCODING=QUOTED-PRINTABLE;CHARSET=\"iso-8859-1\":J=F6rg"], "Jörg"),
        (["FN;ENCODING=QUOTED-", " PRINTABLE:J=C3=B6rg"], "Jörg"),
        (["FN;CHARSET=KOI8-U;ENCODING=QUOTED-PRINTABLE:=E1=CE=CE=C1"], "Анна"),
        (["FN;ENCODING=QUOTED-PRINTABLE:J=", " =C3=B6=  ", "rg"], "J örg"),
        (["FN;ENCODING=QUOTED-PRINTABLE:J=C", " 3=B6rg"], "Jörg"),
        (["FN;ENCODING=QUOTED-PRINTABLE:Jörg=", ""], "Jörg"),
        (["FN;ENCODING=QUOTED-PRINTABLE:a=zz=3"], "a=zz=3"),
        (["FN:Jane="], "Jane="),
        (["VERSION:2.1", "N;ENCODING=QUOTED-PRINTABLE:D=3B=5C=3Boe;Jane"], ";oe Jane D"),
        (["FN;CHARSET=windows-1252:J\udc9arg"], "Jšrg"),
        (["FN;CHARSET=SHIFT_JIS:\udc8f\\\udc93c"], "十田"),
        (["FN;CHARSET=Shift_JIS;ENCODING=QUOTED-PRINTABLE:=8F=5C=93c"], "十田"),
        (["FN;CHARSET=ISO-2022-JP:\x1b$B;3ED\x1b(B"], "山田"),
        # Said to be Latin-1, and UTF-8 after all.
        (["FN;CHARSET=ISO-8859-1:Jörg"], "Jörg"),
        (["FN;CHARSET=no-such:Jörg"], "Jörg"),
        # Folded after 75 bytes, in the middle of a character.
        (["VERSION:3.0", "FN:J\udcc3", " \udcb6rg"], "Jörg"),
    ],
)  # fmt: skip
def test_a_name_is_decoded(properties: list[str], name: str) -> None:
    assert name_of(*(line.encode(errors="surrogateescape") for line in properties)) == name


@pytest.mark.parametrize(
    "charset", ["", ";CHARSET=no-such", ";CHARSET=base64", ";CHARSET=idna", ";CHARSET=é\0", ";CHARSET=US-ASCII"]
)
@pytest.mark.parametrize("name", ["FN:\udcf6", "FN;ENCODING=QUOTED-PRINTABLE:=F6"])
def test_bytes_that_nobody_can_read_are_no_name(charset: str, name: str) -> None:
    line = name.replace(":", f"{charset}:", 1).encode(errors="surrogateescape")
    assert of_card(line, "N:Doe;Jane", f"TEL:+{NUMBER}") == [Rejected(4, reading.NOT_UTF8, MASKED)]


def test_bytes_that_nobody_can_read_do_no_harm_where_nobody_reads_them() -> None:
    adr = b"ADR:;;Stra\xdfe;Springfield;;;\xdf"
    assert of_card("FN:Jane", b"N:\xf6", b"ORG:\xf6", adr, b"NOTE:\xf6", f"TEL:+{NUMBER}") == [
        (7, NUMBER, "Jane", "Springfield")
    ]


# --- places ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("properties", "location"),
    [
        (["ADR:;;1 Street;Springfield;IL;62701;USA"], "Springfield, IL"),
        (["ADR:;;;Springfield"], "Springfield"),
        (["ADR:;;;;IL;;USA"], "IL"),
        (["ADR:;;;Berlin;Berlin;;Germany"], "Berlin"),
        (["ADR:;;;Berlin; Berlin ;;Germany"], "Berlin"),
        (["ADR:;;;;;;Germany;x;y"], "Germany"),
        (["ADR:;;1 Street;;;;", "ADR:;;;Springfield;;;", "ADR:;;;Elsewhere;;;"], "Springfield"),
        (["ADR:;;;Elsewhere;;;", "ADR;TYPE=home,pref:;;;Springfield;;;"], "Springfield"),
        (["ADR:;;;Elsewhere;;;", "ADR;HOME;PREF:;;;Springfield;;;"], "Springfield"),
        (["ADR;TYPE=pref:;;;Springfield;;;", "ADR;TYPE=pref:;;;Elsewhere;;;"], "Springfield"),
        (["ADR:;;;Elsewhere;;;", "ADR;TYPE=\"pref,home\":;;;Springfield;;;"], "Springfield"),
        (["ADR;PREF=2:;;;Elsewhere;;;", "ADR;PREF=1:;;;Springfield;;;"], "Springfield"),
        (["ADR:;;;Springfield;;;", "ADR;TYPE=\"pref\":;;1 Street;;;;"], "Springfield"),
        (["ADR:;;1\\;\\, Street;Spring\\;field\\\\;IL;;"], "Spring;field\\, IL"),
        (["VERSION:2.1", "ADR;QUOTED-PRINTABLE:;;1=0D=0A2;K=C3=B6=", "ln;;;"], "Köln"),
        (["ADR;CHARSET=ISO-8859-1:;;;K\udcf6ln;;;"], "Köln"),
        (["ADR:;;;" + "x" * 150 + ";" + "y" * 150], "x" * 150 + ", " + "y" * 48),
    ],
)  # fmt: skip
def test_a_place_is_read(properties: list[str], location: str) -> None:
    assert location_of(*(line.encode(errors="surrogateescape") for line in properties)) == location


def test_what_no_file_can_hold_is_no_name() -> None:
    lines = ["BEGIN:VCARD", "FN;ENCODING=QUOTED-PRINTABLE:\ud800", f"TEL:+{NUMBER}", "END:VCARD"]
    assert list(vcard.read(iter(lines), region=None)) == [Rejected(3, reading.NOT_UTF8, MASKED)]


def test_a_place_that_nobody_can_read_is_told() -> None:
    assert of_card("FN:Jane", b"ADR:;;;K\xf6ln;;;", f"TEL:+{NUMBER}") == [Rejected(4, reading.NOT_UTF8, MASKED)]


# --- numbers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tel", "region", "number"),
    [
        ("TEL:12125550142", "US", NUMBER),
        ("TEL:+1.212.555.0142", None, NUMBER),
        ("tel;cell:+12125550142", None, NUMBER),
        ("X.Y.TEL;PAGER:+12125550142", None, NUMBER),
        ("TEL ; CELL :+12125550142", None, NUMBER),
        ("TEL;VALUE=uri:tel: +1-212-555-0142", None, NUMBER),
        ("TEL:(212) 555-0142", "US", NUMBER),
        ("TEL:030 23125042", "DE", 493023125042),
        ("TEL;QUOTED-PRINTABLE:=2B1 212 555=\n 0142", None, NUMBER),
        ("TEL:+1 212\n  555\n\t0142", None, NUMBER),
        ("TEL:+1 212 555 0142\\, ext. 9", None, NUMBER),
        ("TEL;WAID=12125550142:\u2066+1 212 555 0142\u2069", None, NUMBER),
        ("TEL;VALUE=uri:tel:+12125550142", None, NUMBER),
        # Some write the scheme and leave out that it is one, or escape what needs none.
        ("TEL:tel:+1-212-555-0142\\;ext=9", None, NUMBER),
        ("TEL;VALUE=uri:Tel:555-0142;ext=9;PHONE-CONTEXT=%2B1212", None, NUMBER),
        ("TEL;VALUE=uri:tel:+1-212-555-0142;phone-context=+49", None, NUMBER),
        ("TEL;VALUE=uri:tel:212-555-0142", "US", NUMBER),
        ("TEL;VALUE=uri:tel:212-555-0142;phone-context=example.com", "US", NUMBER),
    ],
)
def test_a_number_is_read(tel: str, region: str | None, number: int) -> None:
    assert of_card("FN:Jane", tel, region=region) == [(3, number, "Jane", "")]


@pytest.mark.parametrize(
    ("tel", "masked"),
    [
        ("TEL:2125550142", "212*****42"),
        ("TEL:+1 212 555 01421", "1*********21"),
        ("TEL;VALUE=uri:tel:12125550142", MASKED),
        ("TEL:(030) 23125042", None),
        ("TEL:jane@example.com", None),
        ("TEL:911", None),
        ("TEL:+12125550142+12125550143", None),
        ("TEL:1212555\x000142", None),
        ("TEL;VALUE=uri:tel:12125550142;ext=9", None),
        ("TEL;VALUE=uri:tel:555-0142;phone-context=example.com", None),
        ("TEL;VALUE=uri:http://example.com", None),
        ("TEL:" + "9" * 10_000, None),
    ],
)
def test_what_is_no_number_is_told_at_its_line_and_never_repeated(tel: str, masked: str | None) -> None:
    rejected, row = of_card("FN:Jane", tel, f"TEL:+{NUMBER}")
    assert isinstance(rejected, Rejected)
    assert (rejected.line, rejected.number) == (3, masked)
    assert rejected.reason.startswith("number ")
    assert tel.rpartition(":")[2] not in rejected.reason
    assert row == (4, NUMBER, "Jane", "")


@pytest.mark.parametrize("tel", ["TEL:", "TEL;CELL: ", "TEL;VALUE=uri:tel:"])
def test_an_empty_number_is_none(tel: str) -> None:
    assert of_card("FN:Jane", tel) == []


def test_a_card_without_a_number_is_normal() -> None:
    assert of_card("VERSION:3.0", "FN:Jane", "EMAIL:jane@example.com") == []


def test_a_number_comes_once_a_card() -> None:
    again = f"TEL:+{NUMBER}", "TEL:+1 212 555 0142", f"TEL;VALUE=uri:tel:+{NUMBER};ext=9"
    assert of_card("FN:Jane", *again) == [(3, NUMBER, "Jane", "")]


def test_the_same_number_in_another_card_is_another_row() -> None:
    cards = f"BEGIN:VCARD\nTEL:+{NUMBER}\nFN:Jane\nEND:VCARD\n\nBEGIN:VCARD\nFN:June\nTEL:+{NUMBER}\nEND:VCARD"
    assert read(cards) == [(2, NUMBER, "Jane", ""), (8, NUMBER, "June", "")]


# --- agents ---------------------------------------------------------------------------------------------------------

AGENT = ["BEGIN:VCARD", "VERSION:2.1", "FN:Friday", "ADR:;;;Elsewhere;;;", "TEL:+12125550199", "junk", "END:VCARD"]


@pytest.mark.parametrize(
    "agent",
    [
        ["AGENT:", *AGENT],
        ["item1.agent;TYPE=x: ", "", *AGENT],
        ["AGENT:BEGIN:VCARD", *AGENT[1:]],
        ["AGENT:", *AGENT[:-1], "AGENT:", *AGENT, "TEL:+12125550198", "END:VCARD"],
        ["AGENT:BEGIN:VCARD\\nFN:Friday\\nTEL:+12125550199\\nEND:VCARD\\n"],
        ["AGENT:BEGIN:VCARD", " \\nFN:Friday\\nTEL:+12125550199\\nEND:VCARD\\n"],
        ["AGENT;VALUE=uri:CID:friday@example.com"],
        ["AGENT:"],
        ["AGENT:" + "x" * vcard.MAX_PROPERTY],
    ],
)
def test_an_agents_card_leaves_the_outer_card_alone(agent: list[str]) -> None:
    found = of_card("VERSION:2.1", *agent, "FN:Jane", f"TEL:+{NUMBER}")
    assert found == [(2 + 1 + len(agent) + 1, NUMBER, "Jane", "")]


@pytest.mark.parametrize(
    "before",
    ["NOTE:", "AGENT:x", "AGENT;VALUE=uri:CID:friday@example.com", "AGENT:\nNOTE:x", "AGENT:\njunk"],
)
def test_a_card_after_anything_but_an_empty_agent_is_the_next_one(before: str) -> None:
    cards = f"BEGIN:VCARD\nFN:June\nTEL:+12125550199\n{before}\nBEGIN:VCARD\nFN:Jane\nTEL:+{NUMBER}\nEND:VCARD"
    at = 4 + before.count("\n") + 3
    assert read(cards) == [Rejected(1, vcard.NO_END), (at, NUMBER, "Jane", "")]


# --- dirt -----------------------------------------------------------------------------------------------------------


def test_dirt_of_each_kind() -> None:
    file = f"""\
hello
  there

world
BEGIN:VCARD
FN:June
TEL:+12125550199
junk
BEGIN:VCARD
VERSION:9.9
 no colon in what continues
junk
TEL:+{NUMBER}
FN:Jane
BEGIN:VCALENDAR
also junk

 and continued
END:VCALENDAR
END:VCARD
END:VCARD
BEGIN:VCARD
 nothing to continue
TEL:+12125550143
END:VCARD
FN:Nobody
BEGIN:VCARD
FN:June
TEL:+12125550199
"""
    assert read(file) == [
        Rejected(1, vcard.OUTSIDE),
        Rejected(5, vcard.NO_END),
        Rejected(12, vcard.NO_PROPERTY),
        (13, NUMBER, "Jane", ""),
        Rejected(16, vcard.NO_PROPERTY),
        Rejected(18, vcard.NO_PROPERTY),
        Rejected(21, vcard.OUTSIDE),
        Rejected(23, vcard.NO_PROPERTY),
        Rejected(24, reading.NO_NAME_OR_PLACE, "1********43"),
        Rejected(26, vcard.OUTSIDE),
        Rejected(27, vcard.NO_END),
    ]


@pytest.mark.parametrize("file", ["", "\n", " \n\t\n\n"])
def test_nothing_comes_of_nothing(file: str) -> None:
    assert read(file) == []


@pytest.mark.parametrize(
    "border", ["END:VCARDBEGIN:VCARD", "end:vcard\ufeffbegin:vcard", "END:VCARD\n\ufeffBEGIN:VCARD"]
)
def test_files_put_together_byte_by_byte_do_not_mix_two_people(border: str) -> None:
    cards = f"BEGIN:VCARD\nFN:June\nTEL:+12125550143\n{border}\nFN:Jane\nTEL:+{NUMBER}\nEND:VCARD"
    at = 4 + border.count("\n") + 2
    assert read(cards) == [(3, 12125550143, "June", ""), (at, NUMBER, "Jane", "")]


@pytest.mark.parametrize("ending", ["=", "=  ", "=0D=0A="])
def test_a_value_that_breaks_off_does_not_mix_two_people(ending: str) -> None:
    note = f"NOTE;ENCODING=QUOTED-PRINTABLE:x{ending}"
    cards = f"BEGIN:VCARD\nFN:June\n{note}\nEND:VCARD\nBEGIN:VCARD\nFN:Jane\nTEL:+{NUMBER}\nEND:VCARD"
    assert read(cards) == [(7, NUMBER, "Jane", "")]


@pytest.mark.parametrize("name", ["FN", "N", "ORG", "ADR", "TEL", "fn;CHARSET=UTF-8", 'item1.ADR;X="a:"'])
def test_a_property_that_is_too_long_is_not_used(name: str) -> None:
    long = [f"{name}:;;;;", *[" " + "x" * 1000] * 20, "FN:Jane", f"TEL:+{NUMBER}"]
    assert of_card(*long) == [Rejected(2, vcard.TOO_LONG), (24, NUMBER, "Jane", "")]


def test_a_picture_that_is_not_indented_ends_with_a_blank_line() -> None:
    assert of_card("PHOTO;BASE64:", "AAAA", "", "junk") == [Rejected(5, vcard.NO_PROPERTY)]


def test_a_long_value_of_soft_breaks_stays_too_long() -> None:
    value = ["FN;ENCODING=QUOTED-PRINTABLE:", *["x" * 70 + "="] * 300, "x"]
    value[0] += "="
    assert of_card(*value, f"TEL:+{NUMBER}") == [
        Rejected(2, vcard.TOO_LONG),
        Rejected(304, reading.NO_NAME_OR_PLACE, MASKED),
    ]


def test_a_property_that_nobody_uses_may_be_long() -> None:
    assert of_card("NOTE:" + "x" * 100_000, "PHOTO:", *[" " + "x" * 1000] * 20, "FN:Jane", f"TEL:+{NUMBER}") == [
        (25, NUMBER, "Jane", "")
    ]


def test_a_card_has_so_many_numbers_and_no_more() -> None:
    tels = [f"TEL:+1212555{line:04}" for line in range(vcard.MAX_ENTRIES + 2)]
    found = of_card("FN:Jane", *tels)
    assert rows(found[:-1]) == [(3 + n, 12125550000 + n, "Jane", "") for n in range(vcard.MAX_ENTRIES)]
    assert found[-1] == Rejected(3 + vcard.MAX_ENTRIES, vcard.TOO_MANY)


def test_a_number_again_is_none_too_many() -> None:
    tels = [f"TEL:+1212555{line:04}" for line in range(vcard.MAX_ENTRIES)]
    assert len(rows(of_card("FN:Jane", *tels, *tels))) == vcard.MAX_ENTRIES


@pytest.mark.parametrize(
    ("first", "line", "found"),
    [
        ("PHOTO;ENCODING=b:A", " " + "A" * 76, [(30_003, NUMBER, "Jane", "")]),
        ("PHOTO;ENCODING=b:A", "A" * 76, [(30_003, NUMBER, "Jane", "")]),
        ("NOTE;QUOTED-PRINTABLE:=", "A" * 76 + "=", None),
        ("VERSION:3.0", "TEL:1", None),
        ("VERSION:3.0", "TEL:+1212{n}", None),
        ("VERSION:3.0", "junk\n AAAA", None),
        ("VERSION:3.0", "FN:" + "x" * 76, None),
        ("VERSION:3.0", "AGENT:\nBEGIN:VCARD", [Rejected(1, vcard.NO_END)]),
    ],
    ids=["picture", "picture-not-indented", "quoted", "bad-numbers", "numbers", "junk", "names", "agents"],
)
def test_no_card_is_too_large_for_memory(first: str, line: str, found: list[Any] | None) -> None:
    def lines() -> Iterator[str]:
        yield "BEGIN:VCARD\n"
        yield f"{first}\n"
        for n in range(2_000_000, 2_030_000):
            yield from line.replace("{n}", str(n)).splitlines(keepends=True)
        yield f"TEL:+{NUMBER}\n"
        yield "FN:Jane\n"
        yield "END:VCARD\n"

    tracemalloc.start()
    try:
        outputs = list(vcard.read(lines(), region=None))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000
    assert len(outputs) <= vcard.MAX_ENTRIES + 1
    assert found is None or outputs == found


@pytest.mark.parametrize(
    "line",
    [
        'TEL;"' * 100_000,
        "TEL;" + '"' * 100_001 + ":",
        "TEL;" + '"";' * 30_000,
        'X;A="' + '":' * 100_000,
        "END" + " " * 100_000 + ":VCARD" + " " * 100_000 + "x",
        "\ufeff" * 100_000 + "BEGIN:",
        "N:" + "\\" * 16_001 + ";" * 300,
        "ADR:" + ";" * 16_000,
        "FN;QUOTED-PRINTABLE:" + "=" * 16_000,
        "TEL:+" + "(" * 16_000,
        "TEL:+1" + ";ext=" * 3_000,
        "TEL:tel:" + "%2" * 8_000 + ";" * 300,
        "A." * 100_000 + "TEL:",
        "\n ".join(["a picture without a head", *["A" * 74] * 20_000]),
        "\n ".join(['X;A="', *[":"] * 20_000]),
    ],
)
def test_no_line_takes_more_than_its_length(line: str) -> None:
    """A pattern that backtracks would never end."""
    assert len(of_card(line, f"TEL:+{NUMBER}", "FN:Jane")) <= 2
