"""vCards as phones and mail programs export them.

The files are hand-written copies of real ones. The expected line numbers are counted by hand.
"""

import pytest

from contrib.file_formats.tests.cards import NUMBER, read
from phonebook.imports.readers import base
from phonebook.imports.readers.base import Rejected

pytestmark = pytest.mark.once


def test_iphone_export_with_groups_labels_and_pictures() -> None:
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
        Rejected(12, base.REPEATED_IN_CONTACT, "1********42"),
        Rejected(21, "number has no country code", "212*****43"),
        Rejected(27, base.NO_NAME_OR_LOCATION, "1********44"),
    ]


def test_android_export_in_quoted_printable() -> None:
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


def test_version_4_with_uris_and_quoted_lists() -> None:
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
 1 Example Street; Elsewhere":;;1 Example Street;;;;
ADR;TYPE=work:;;1 Example Street;Springfield;IL;62701;USA
PHOTO:data:image/jpeg;base64,/9j/4AAQSkZJRgABAQAAAQABAAD
 TEL:+12125550199
END:VCARD
"""
    name, location = "Jane Doe", "Springfield, IL"
    assert read(file) == [
        (8, NUMBER, name, location),
        (9, 12125550143, name, location),
        (10, 12125550144, name, location),
        Rejected(11, "number has no country code", "212*****45"),
        Rejected(12, "number is no phone number"),
        (13, 12125550146, name, location),
    ]
