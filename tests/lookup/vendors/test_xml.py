"""XML as expressions see it, and what is refused."""

from typing import Any

import pytest

from lookup.answers import Failed, Found, NotFound
from lookup.vendors import bodies, transport, xml
from tests.lookup.vendors.conftest import Make

FEED = """<?xml version="1.0" encoding="ISO-8859-1"?>
<feed xmlns="http://www.w3.org/2005/Atom" xmlns:tel="http://tel.example.com/result/1.0/">
  <total>{total}</total>{entries}
</feed>"""
ENTRY = "<entry><title type='text'>Müller, Zoë</title><tel:name>Müller</tel:name><tel:city>Genève</tel:city></entry>"


def feed(*entries: str) -> bytes:
    return FEED.format(total=len(entries), entries="".join(entries)).encode("iso-8859-1")


def test_elements_are_objects_lists_and_texts() -> None:
    assert xml.document(b"<a><b/><c> x </c><c>y</c><d e='1'>z</d><f><g>1</g></f></a>") == {
        "a": {"b": None, "c": ["x", "y"], "d": {"@e": "1", "#text": "z"}, "f": {"g": "1"}}
    }
    found = xml.document(feed(ENTRY))["feed"]["entry"]
    assert found["tel:city"] == "Genève"
    assert found["title"] == {"@type": "text", "#text": "Müller, Zoë"}


BOMB = b'<!DOCTYPE a [<!ENTITY b "%s"><!ENTITY c "%s">]><a>&c;</a>' % (b"x" * 50, b"&b;" * 50)


@pytest.mark.parametrize(
    "body",
    [
        BOMB,
        b'<!DOCTYPE a SYSTEM "file:///etc/passwd"><a/>',
        b'<!DOCTYPE a [<!ENTITY b SYSTEM "file:///etc/passwd">]><a>&b;</a>',
        b"<a>&unknown;</a>",
        b"<a><b></a>",
        b"<?xml version='1.0' encoding='unknown-1'?><a/>",
        b"{}",
        b"",
        b"\xff<a/>",
    ],
)
def test_entities_and_what_is_no_xml_are_refused(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"document type|not XML"):
        xml.document(body)


def test_deeply_nested_elements_are_read() -> None:
    value: Any = xml.document(b"<a>" * 9_000 + b"</a>" * 9_000)
    for _ in range(9_000):
        value = value["a"]
    assert value is None


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (feed(ENTRY), Found(name="Müller", location="Genève")),
        (feed(ENTRY, ENTRY), Found(name="Müller", location="Genève")),
        (feed(), NotFound("not_found")),
    ],
)
def test_preset_reads_xml_by_expressions(make: Make, body: bytes, expected: object) -> None:
    vendor = make_xml(make)
    assert vendor.classify(transport.Reply(200, {}, body)).answer == expected
    assert vendor.request("12025550123").headers["Accept"] == "application/xml, text/xml"


def test_reply_that_is_no_xml_is_a_failure(make: Make) -> None:
    answer = make_xml(make).classify(transport.Reply(200, {"Content-Type": "text/html"}, BOMB)).answer
    assert isinstance(answer, Failed)
    assert answer.reason == "bad_response"
    assert answer.hint == "200: its answer is not XML, or has a document type (Content-Type text/html)"


def make_xml(make: Make) -> Any:
    found, field = 'when = "feed.entry != `null`"', "'[feed.entry][] | [0].\"tel:{}\"'"
    return make(
        ('source = "these tests"', 'source = "these tests"\nbody = "xml"'),
        ('when = "known == `false`"', "when = \"feed.total == '0'\""),
        ("when = \"contains(keys(@), 'name')\"", found),
        ('name = ["name"]', f"name = [{field.format('name')}]"),
        ('location = ["[city, state]"]', f"location = [{field.format('city')}]"),
    )


@pytest.mark.parametrize(
    ("content_type", "encoding"),
    [*(("application/xml", "iso-8859-1"), ("text/xml; charset=utf-8", "iso-8859-1"), ("text/xml", "utf-8"))],
)
def test_encoding_is_the_declared_one_unless_it_is_utf_8(content_type: str, encoding: str) -> None:
    body = feed(ENTRY).decode("iso-8859-1").encode(encoding)
    document: Any = bodies.read("xml", transport.Reply(200, {"Content-Type": content_type}, body))
    assert document["feed"]["entry"]["tel:city"] == "Genève"
