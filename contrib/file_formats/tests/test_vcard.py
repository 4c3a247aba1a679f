"""vCards: names, locations and numbers in every notation."""

import pytest

from contrib.file_formats import vcard
from contrib.file_formats.tests.cards import MASKED, NUMBER, of_card, read, rows
from phonebook.imports.readers import base
from phonebook.imports.readers.base import Rejected

pytestmark = pytest.mark.once


def name_of(*properties: str | bytes) -> str:
    ((_, number, name, location),) = rows(of_card(*properties, f"TEL:+{NUMBER}"))
    assert (number, location) == (NUMBER, "")
    return name


@pytest.mark.parametrize("line", ["BEGIN:VCARD", "begin:vcard\r\n", "  Begin:vCard \n", "BEGIN : VCARD"])
def test_file_is_recognized_by_its_first_line(line: str) -> None:
    assert vcard.recognizes([line])


@pytest.mark.parametrize(
    "line", ["", "number,name", "BEGIN:VCALENDAR", "item1.BEGIN:VCARD", "BEGIN:VCARDS", "END:VCARD", "VERSION:3.0"]
)
def test_other_first_line_is_not_recognized(line: str) -> None:
    assert not vcard.recognizes([line])


# --- names ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("properties", "name"),
    [
        (["FN:Jane"], "Jane"),
        (["item1.fn;language=en:Jane"], "Jane"),
        (["ORG:Widgets", "N:Doe;Jane", "FN:Jane D."], "Jane D."),
        (["FN:\u200e", "N:Doe;Jane;Q.;Dr.;Jr."], "Dr. Jane Q. Doe Jr."),
        (["N:Doe;Jane"], "Jane Doe"),
        (["N:;;;;", "N:Doe;Jane;;;;;;"], "Jane Doe"),
        (["ORG:;Sales", "ORG:Widgets;Sales"], "Widgets"),
        (["NICKNAME:Jany", "FN:", "N:;;;;"], "Jany"),
        (["NICKNAME:Jany", "ORG:Widgets"], "Widgets"),
        (["N:Doe\\;Roe;Jane\\, Anne\\\\;O\\nP"], "Jane, Anne\\ O P Doe;Roe"),
        (["VERSION:2.1", "N:Doe\\;Roe;Jane\\, Anne;C\\nn"], "Jane, Anne C\\nn Doe;Roe"),
        (["VERSION:2.1", "N:Doe\\\\;Roe;Jane"], "Jane Doe\\;Roe"),
        (["FN:\\N\\n Jane\\:\\, the \\x\\"], "Jane:, the \\x\\"),
        (["FN:Ja\u200dne\tDoe\x07"], "Jane Doe"),
        (["FN:Ja", "\tne", " ", " Doe"], "JaneDoe"),
        # 2.1 folds lines at white space, which is part of the text.
        (["VERSION:2.1", "FN:Jane", " Doe"], "Jane Doe"),
        (["FN;X-A=\"a:b;c,\":Jane"], "Jane"),
        (["FN;X-A=\"a;", " b:c\":Jane"], "Jane"),
        (["FN;X-A=\"never closed:Jane"], "Jane"),
        (["FN:Jane \"Q: \" Doe"], 'Jane "Q: " Doe'),
    ],
)  # fmt: skip
def test_name_is_read(properties: list[str], name: str) -> None:
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
        (["VERSION:2.1", "N;ENCODING=QUOTED-PRINTABLE:D=3B=5C=3Boe;Jane"], ";oe Jane D"),
        (["FN;CHARSET=windows-1252:J\udc9arg"], "Jšrg"),
        (["FN;CHARSET=SHIFT_JIS:\udc8f\\\udc93c"], "十田"),
        (["FN;CHARSET=ISO-2022-JP:\x1b$B;3ED\x1b(B"], "山田"),
        # Labelled Latin-1, but UTF-8.
        (["FN;CHARSET=ISO-8859-1:Jörg"], "Jörg"),
        (["FN;CHARSET=no-such:Jörg"], "Jörg"),
        # Folded after 75 bytes, in the middle of a character.
        (["VERSION:3.0", "FN:J\udcc3", " \udcb6rg"], "Jörg"),
    ],
)  # fmt: skip
def test_name_is_decoded(properties: list[str], name: str) -> None:
    assert name_of(*(line.encode(errors="surrogateescape") for line in properties)) == name


@pytest.mark.parametrize(
    "charset", ["", ";CHARSET=no-such", ";CHARSET=base64", ";CHARSET=idna", ";CHARSET=é\0", ";CHARSET=US-ASCII"]
)
@pytest.mark.parametrize("name", ["FN:\udcf6", "FN;ENCODING=QUOTED-PRINTABLE:=F6", "ADR:;;;K\udcf6ln;;;"])
def test_undecodable_name_or_location_is_rejected(charset: str, name: str) -> None:
    line = name.replace(":", f"{charset}:", 1).encode(errors="surrogateescape")
    assert of_card(line, "N:Doe;Jane", f"TEL:+{NUMBER}") == [Rejected(4, base.NOT_UTF8, MASKED)]


# --- locations ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("properties", "location"),
    [
        (["ADR:;;1 Street;Springfield;IL;62701;USA"], "Springfield, IL"),
        (["ADR:;;;;IL;;USA"], "IL"),
        (["ADR:;;;Berlin;Berlin;;Germany"], "Berlin"),
        (["ADR:;;;;;;Germany;x;y"], "Germany"),
        (["ADR:;;1 Street;;;;", "ADR:;;;Springfield;;;", "ADR:;;;Elsewhere;;;"], "Springfield"),
        (["ADR:;;1\\;\\, Street;Spring\\;field\\\\;IL;;"], "Spring;field\\, IL"),
        (["VERSION:2.1", "ADR;QUOTED-PRINTABLE:;;1=0D=0A2;K=C3=B6=", "ln;;;"], "Köln"),
        (["ADR;CHARSET=ISO-8859-1:;;;K\udcf6ln;;;"], "Köln"),
    ],
)  # fmt: skip
def test_location_is_read(properties: list[str], location: str) -> None:
    lines = (line.encode(errors="surrogateescape") for line in properties)
    assert [row[2:] for row in rows(of_card(*lines, f"TEL:+{NUMBER}"))] == [("", location)]


# --- numbers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tel", "region", "number"),
    [
        ("tel;cell:+12125550142", None, NUMBER),
        ("X.Y.TEL;PAGER:+12125550142", None, NUMBER),
        ("TEL ; CELL :+12125550142", None, NUMBER),
        ("TEL;VALUE=uri:tel: +1-212-555-0142", None, NUMBER),
        ("TEL:(212) 555-0142", "US", NUMBER),
        ("TEL;QUOTED-PRINTABLE:=2B1 212 555=\n 0142", None, NUMBER),
        ("TEL:+1 212\n  555\n\t0142", None, NUMBER),
        ("TEL:+1 212 555 0142\\, ext. 9", None, NUMBER),
        ("TEL;WAID=12125550142:\u2066+1 212 555 0142\u2069", None, NUMBER),
        ("TEL;VALUE=uri:tel:+12125550142", None, NUMBER),
        # Some omit VALUE=uri, or escape what needs no escape.
        ("TEL:tel:+1-212-555-0142\\;ext=9", None, NUMBER),
        ("TEL;VALUE=uri:Tel:555-0142;ext=9;PHONE-CONTEXT=%2B1212", None, NUMBER),
        ("TEL;VALUE=uri:tel:+1-212-555-0142;phone-context=+49", None, NUMBER),
        ("TEL;VALUE=uri:tel:212-555-0142;phone-context=example.com", "US", NUMBER),
    ],
)
def test_number_is_read(tel: str, region: str | None, number: int) -> None:
    assert of_card("FN:Jane", tel, region=region) == [(3, number, "Jane", "")]


@pytest.mark.parametrize(
    ("tel", "masked"),
    [
        ("TEL:2125550142", "212*****42"),
        ("TEL:+1 212 555 01421", "1*********21"),
        ("TEL;VALUE=uri:tel:12125550142", MASKED),
        ("TEL:1212555\x000142", None),
        ("TEL;VALUE=uri:tel:12125550142;ext=9", MASKED),
        ("TEL;VALUE=uri:tel:555-0142;phone-context=example.com", "55***42"),
        ("TEL;VALUE=uri:http://example.com", None),
    ],
)
def test_invalid_number_is_rejected_and_not_printed(tel: str, masked: str | None) -> None:
    rejected, row = of_card("FN:Jane", tel, f"TEL:+{NUMBER}")
    assert isinstance(rejected, Rejected)
    assert (rejected.line, rejected.number) == (3, masked)
    assert rejected.reason.startswith("number ")
    assert tel.rpartition(":")[2] not in rejected.reason
    assert row == (4, NUMBER, "Jane", "")


def test_number_is_yielded_once_per_card() -> None:
    again = f"TEL:+{NUMBER}", "TEL:+1 212 555 0142", f"TEL;VALUE=uri:tel:+{NUMBER};ext=9"
    repeated = [Rejected(line, base.REPEATED_IN_CONTACT, MASKED) for line in (4, 5)]
    assert of_card("FN:Jane", *again) == [(3, NUMBER, "Jane", ""), *repeated]


@pytest.mark.parametrize(
    "agent", ["AGENT:BEGIN:VCARD\\nTEL:+12125550199\\nEND:VCARD\\n", "AGENT;VALUE=uri:CID:friday@example.com"]
)
def test_agent_in_a_value_is_ignored(agent: str) -> None:
    assert of_card(agent, "FN:Jane", f"TEL:+{NUMBER}") == [(4, NUMBER, "Jane", "")]


AGENT = f"BEGIN:VCARD\nFN:Jane\nTEL:+{NUMBER}\nEND:VCARD"


@pytest.mark.parametrize("begin", ["AGENT:\n", "AGENT:", "item1.agent;TYPE=x: \n"])
def test_agent_is_a_card_of_its_own(begin: str) -> None:
    """Reported of others: nuovo/vCard-parser#4 and #26."""
    cards = f"BEGIN:VCARD\nVERSION:2.1\nTEL:+12125550198\n{begin}{AGENT}\nFN:June\nTEL:+12125550199\nEND:VCARD\n{AGENT}"
    found = [(row[1], row[2]) for row in rows(read(cards))]
    assert found == [(NUMBER, "Jane"), (12125550198, "June"), (12125550199, "June"), (NUMBER, "Jane")]
    assert len(read(cards)) == len(found)


def test_card_around_an_agent_without_end_is_listed() -> None:
    cards = f"BEGIN:VCARD\nFN:June\nTEL:+12125550199\nAGENT:\n{AGENT}"
    june = [Rejected(1, vcard.NO_END), (3, 12125550199, "June", "")]
    assert read(cards) == [(7, NUMBER, "Jane", ""), *june]
    assert read(f"{cards}\n{AGENT}") == [(7, NUMBER, "Jane", ""), *june, (11, NUMBER, "Jane", "")]
