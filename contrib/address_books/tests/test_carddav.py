"""What a CardDAV server may send instead of an address book, and how far it is trusted."""

import base64
import re
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme

from contrib.address_books import carddav
from contrib.address_books.books import Book, BookFailed, Changes, digest
from contrib.address_books.tests.servers import CardDAVBook, Radicale, collection, member, multistatus, status_of, vcard
from tests.upstream import Behaviour, Conversation, Upstream, raw

pytestmark = pytest.mark.once

XML = "Content-Type: application/xml\r\n"
BOOK = collection("/book/")


@pytest.fixture
def server() -> Iterator[Upstream]:
    upstream = Upstream(raw(b"", 500)).start()
    yield upstream
    upstream.stop()


def fetch(server: Upstream, **known: str) -> Changes:
    book = Book("office", f"{server.url}/book/", user="desk", password="secret-7")
    return carddav.fetch(book, known={digest(path): version for path, version in known.items()})


def refusal(server: Upstream, behave: Behaviour) -> str:
    server.behave_as(behave)
    with pytest.raises(BookFailed) as error:
        fetch(server)
    assert "secret-7" not in str(error.value)
    return str(error.value)


def in_turn(*bodies: str, status: int = 207) -> Behaviour:
    waiting = list(bodies)
    return lambda conversation: raw(waiting.pop(0).encode(), status, XML)(conversation)


def test_redirect_is_not_followed(server: Upstream) -> None:
    elsewhere = Upstream(raw(b"")).start()
    answer = raw(b"", 302, f"Location: {elsewhere.url}/book/\r\n")
    assert refusal(server, answer) == "the server redirects (302): set the URL of the address book itself"
    assert elsewhere.heads == []
    elsewhere.stop()


@pytest.mark.parametrize(
    "document",
    [
        '<!DOCTYPE m [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]><m>&b;</m>',
        '<!DOCTYPE m SYSTEM "http://127.0.0.1:9/x"><multistatus xmlns="DAV:"/>',
        '<!DOCTYPE m [<!ENTITY x SYSTEM "file:///etc/hostname">]><multistatus xmlns="DAV:">&x;</multistatus>',
    ],
    ids=["bomb", "external", "file"],
)
def test_document_types_are_refused(server: Upstream, document: str) -> None:
    assert refusal(server, raw(document.encode(), 207)) == "the server sent XML with a document type"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "the server sent invalid XML"),
        (b"<multistatus xmlns='DAV:'>", "the server sent invalid XML"),
        (b"<?xml version='1.0' encoding='nonsense'?><a/>", "the server sent invalid XML"),
        (b"<html/>", "the server sent XML that is not a list (DAV:multistatus)"),
        (b"\x1f\x8b\x08\x00", "the server sent invalid XML"),
    ],
    ids=["empty", "cut", "encoding", "page", "gzip"],
)
def test_other_bodies_are_refused(server: Upstream, body: bytes, reason: str) -> None:
    assert refusal(server, raw(body, 207)) == reason


def test_endless_body_is_cut_off(server: Upstream, monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(conversation: Conversation) -> bool:
        conversation.send(b"HTTP/1.1 207 X\r\nConnection: close\r\n\r\n")
        while not conversation.ended.is_set():
            conversation.send(b" " * 65536)
        return False

    monkeypatch.setattr(carddav, "MAX_RESPONSE_BYTES", 2**20)
    assert refusal(server, endless) == "a response is larger than 1 MiB"


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (401, "the server rejected the user or the password (401)"),
        (404, "the server has no address book at this URL (404)"),
        (429, "the server answered 429"),
        (503, "the server answered 503"),
    ],
)
def test_statuses_are_explained(server: Upstream, status: int, reason: str) -> None:
    assert refusal(server, raw(b"", status)) == reason
    assert len(server.heads) == 1


def test_cards_are_listed_and_the_changed_ones_transferred(server: Upstream) -> None:
    listed = (member("/book/a.vcf", "1"), member("/book/b%20b&lt;.vcf", "2"), collection("/book/sub/"))
    card = multistatus(member("/book/b b&lt;.vcf", "2", vcard("Bob Example", "+12125550143")))
    server.behave_as(in_turn(multistatus(*listed, BOOK), card))
    changes = fetch(server, **{"/book/a.vcf": digest("1"), "/book/z.vcf": digest("0")})
    assert changes.removed == {digest("/book/z.vcf")}
    assert [card.contacts for card in changes.cards.values()] == [{12125550143: ("Bob Example", "")}]
    assert b"<href>/book/b%20b&lt;.vcf</href>" in server.bodies[1]
    assert b"a.vcf" not in server.bodies[1]


@pytest.mark.parametrize(
    "answer",
    [status_of("/book/a.vcf", 404), member("/book/a.vcf", "1", " "), member("/book/a.vcf", "1"), ""],
    ids=["404", "blank", "no-data", "missing"],
)
def test_card_without_data_is_neither_removed_nor_forgotten(server: Upstream, answer: str) -> None:
    server.behave_as(in_turn(multistatus(BOOK, member("/book/a.vcf", "1")), multistatus(answer)))
    changes = fetch(server, **{"/book/a.vcf": digest("0")})
    assert (changes.cards, changes.removed) == ({}, set())
    assert [card.label for card in changes.not_returned] == ["/book/a.vcf"]


def test_cut_list_of_all_cards_removes_nothing(server: Upstream) -> None:
    cut = multistatus(BOOK, member("/book/a.vcf", "1"), status_of("/book/", 507))
    assert refusal(server, in_turn(cut)) == "the server does not list all cards"


@pytest.mark.parametrize("listed", ["", collection("/book/").replace("<C:addressbook/>", "") + collection("/book/a/")])
def test_url_of_another_collection_is_refused(server: Upstream, listed: str) -> None:
    assert refusal(server, in_turn(multistatus(listed))) == "the URL is not that of a CardDAV address book"


@pytest.mark.parametrize("body", [b"<a/>" * 50, b"<a " + b"".join(b"b%d='' " % n for n in range(30)) + b"/>"])
def test_markup_that_takes_much_memory_is_refused(
    server: Upstream, monkeypatch: pytest.MonkeyPatch, body: bytes
) -> None:
    monkeypatch.setattr(carddav, "MAX_MARKUP", 50)
    document = b"<multistatus xmlns='DAV:'>" + body + b"</multistatus>"
    assert refusal(server, raw(document, 207)) == "a response has too many elements or attributes"


def test_credentials_that_are_not_utf8_are_sent_as_they_are(server: Upstream) -> None:
    server.behave_as(raw(multistatus(BOOK).encode(), 207))
    book = Book("office", f"{server.url}/book/", user="desk", password=b"p\xe4ss".decode("utf-8", "surrogateescape"))
    carddav.fetch(book, known={})
    assert b"Basic " + base64.b64encode(b"desk:p\xe4ss") in server.heads[0]


def test_digest_authentication_is_used_if_asked_for(server: Upstream) -> None:
    def behave(conversation: Conversation) -> bool:
        if b"Authorization: Digest " in conversation.head:
            return raw(multistatus(BOOK).encode(), 207)(conversation)
        return raw(b"x" * 100, 401, 'WWW-Authenticate: Digest realm="book", nonce="n1", qop="auth"\r\n')(conversation)

    server.behave_as(behave)
    assert fetch(server).cards == {}
    assert [b"secret-7" in head for head in server.heads] == [False] * len(server.heads)
    assert refusal(server, raw(b"", 401, 'WWW-Authenticate: Digest realm="book", nonce="n1", qop="auth"\r\n')) == (
        "the server rejected the user or the password (401)"
    )


def test_blank_lines_before_the_xml_are_skipped(server: Upstream) -> None:
    document = f'<?xml version="1.0" encoding="utf-8"?>{multistatus(BOOK)}'
    server.behave_as(raw(b"\xef\xbb\xbf\r\n \n" + document.encode(), 207))
    assert fetch(server).cards == {}


def test_server_whose_responses_are_all_invalid_has_failed(server: Upstream) -> None:
    cards = (member(f"/book/{n}.vcf", "1") for n in range(2 * carddav.MAX_UNREADABLE))
    listed = multistatus(BOOK, *cards).encode()
    server.behave_as(lambda conversation: raw(b"x" if b"REPORT" in conversation.head else listed, 207)(conversation))
    with pytest.raises(BookFailed, match="the server sent invalid XML"):
        fetch(server)


def test_server_that_fails_after_a_good_batch_keeps_that(server: Upstream, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked for the 50 cards of one more batch, together and in halves, and for no other."""
    monkeypatch.setattr(carddav, "MAX_UNREADABLE", carddav.BATCH)
    names = [f"/book/{n}.vcf" for n in range(4 * carddav.BATCH)]
    listed = multistatus(BOOK, *(member(name, "1") for name in names))
    first = multistatus(*(member(name, "1", vcard("A", "+493023125555")) for name in names[: carddav.BATCH]))
    waiting = [raw(listed.encode(), 207), raw(first.encode(), 207)]
    server.behave_as(lambda conversation: (waiting.pop(0) if waiting else raw(b"", 500))(conversation))
    changes = fetch(server)
    assert (len(changes.cards), changes.unreadable) == (carddav.BATCH, carddav.BATCH)
    assert len(server.heads) == 2 + 2 * carddav.BATCH - 1


def test_new_card_is_read_behind_many_damaged_ones(server: Upstream) -> None:
    """They are asked for again by each run."""
    names = [f"/book/{n}.vcf" for n in range(2 * carddav.BATCH)]
    listed = multistatus(BOOK, *(member(name, "1") for name in names))
    good = multistatus(member(names[-1], "1", vcard("A", "+493023125555")))

    def behave(conversation: Conversation) -> bool:
        if b"PROPFIND" in conversation.head:
            return raw(listed.encode(), 207)(conversation)
        is_good = re.findall("<href>(.*?)</href>", conversation.body.decode()) == names[-1:]
        return raw(good.encode() if is_good else b"x", 207)(conversation)

    server.behave_as(behave)
    changes = fetch(server)
    assert (len(changes.cards), changes.unreadable) == (1, len(names) - 1)


@pytest.mark.parametrize(("status", "unreadable"), [("404 Not Found", 0), ("403 Forbidden", 1)])
def test_card_that_the_server_refuses_is_reported(server: Upstream, status: str, unreadable: int) -> None:
    data = '<C:address-data xmlns:C="urn:ietf:params:xml:ns:carddav"/>'
    refused = f"<propstat><prop>{data}</prop><status>HTTP/1.1 {status}</status></propstat>"
    listed = multistatus(BOOK, member("/book/a.vcf", "1")).encode()
    answer = multistatus(f"<response><href>/book/a.vcf</href>{refused}</response>").encode()
    server.behave_as(lambda conversation: raw(answer if b"REPORT" in conversation.head else listed, 207)(conversation))
    changes = fetch(server)
    assert (changes.cards, changes.unreadable) == ({}, unreadable)
    assert changes.not_returned[0].rejected[0].detail == f"status {status[:3]}"


@pytest.mark.parametrize("trusted", [True, False], ids=["right", "wrong"])
def test_certificate_is_verified(radicale: Radicale, tmp_path: Path, settings: Any, trusted: bool) -> None:
    authority = trustme.CA()
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(tls)
    (authority if trusted else trustme.CA()).cert_pem.write_to_path(tmp_path / "authority.pem")
    settings.CA_BUNDLE = str(tmp_path / "authority.pem")
    book = CardDAVBook(radicale, tls=tls).start()
    book.put(a=vcard("Alice Example", "+12125550142"))
    configured = Book("office", book.url, user="desk", password="p\u00e4ssword-7")
    if trusted:
        assert len(carddav.fetch(configured, known={}).cards) == 1
    else:
        with pytest.raises(BookFailed, match="TLS certificate"):
            carddav.fetch(configured, known={})
        assert book.proxy.heads == []
    book.proxy.stop()


def test_cloud_metadata_is_never_asked() -> None:
    with pytest.raises(BookFailed, match="not allowed"):
        carddav.fetch(Book("office", "https://169.254.169.254/book/"), known={})
