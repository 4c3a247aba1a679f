"""Gets what has changed in a CardDAV address book (RFC 6352).

Each run lists all cards, and compares their ETags. Only cards that are new or changed are transferred.
"""

import io
import re
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit
from xml.etree import ElementTree
from xml.etree.ElementTree import Element
from xml.sax.saxutils import escape

import requests
from requests.auth import HTTPDigestAuth

from contrib.address_books.books import Book, BookFailed, Card, Changes, digest
from contrib.file_formats import vcard
from core import http
from core.addresses import policy_for
from phonebook.imports.readers.base import Rejected
from phonebook.imports.staging import chunks

#: Of one response, however slowly its body arrives.
RESPONSE_TIMEOUT_S = 600.0
MAX_RESPONSE_BYTES = 64 * 2**20
#: Of "<" and quotation marks: an element or attribute takes up to 400 bytes of memory. A list has 20 for each card.
MAX_MARKUP = 2_000_000
#: Cards that one request asks for. They may have pictures.
BATCH = 50

#: A run ends after so many cards that cannot be read: the server itself may have failed.
MAX_UNREADABLE = 500

NO_CARD = "the server did not return the card"
UNREADABLE = "the card cannot be read"
_DAV, _CARDDAV = "{DAV:}", "{urn:ietf:params:xml:ns:carddav}"
_ETAG = f"{_DAV}getetag"
_STATUS = re.compile(r"HTTP/\S+ ([0-9]{3})\b")

_LIST = '<?xml version="1.0" encoding="utf-8"?><propfind xmlns="DAV:"><prop><resourcetype/><getetag/></prop></propfind>'
_MULTIGET = (
    '<?xml version="1.0" encoding="utf-8"?><C:addressbook-multiget xmlns="DAV:" '
    'xmlns:C="urn:ietf:params:xml:ns:carddav"><prop><getetag/><C:address-data/></prop>{}</C:addressbook-multiget>'
)


class _UnreadableResponse(BookFailed):
    """One of the cards that were asked for may be the reason."""


def fetch(book: Book, *, known: Mapping[str, str]) -> Changes:
    """`known` (key → version): of the last run, empty for the first. Raises BookFailed."""
    policy = policy_for(book.url, private_network=True)
    # It follows no redirects: they may point to another host, without the credentials or with them.
    with http.Session(book.url, policy, timeout_s=RESPONSE_TIMEOUT_S) as session:
        client = _Client(book, session)
        members = client.members()
        changes = Changes(removed=known.keys() - members.keys())
        wanted = []
        for key, member in members.items():
            etag = member.text(_ETAG)
            if not etag or known.get(key) != digest(etag):
                wanted.append(member.href)
        for hrefs in chunks(wanted, BATCH):
            client.cards(hrefs, changes)
            if changes.unreadable >= MAX_UNREADABLE:
                if not changes.cards:
                    raise BookFailed(changes.not_returned[-1].rejected[0].detail)
                break
        return changes


class _Member:
    """A response of a multistatus. `status`: of the resource, or of what was not found or refused of it; 200 unless the
    server says so."""

    def __init__(self, response: Element) -> None:
        self.href = (response.findtext(f"{_DAV}href") or "").strip()
        self.path = _path(self.href)
        propstats = response.findall(f"{_DAV}propstat")
        self.status = next((found for each in (response, *propstats) if (found := _status(each)) != 200), 200)
        valid = (propstat for propstat in propstats if _status(propstat) == 200)
        self.properties = {each.tag: each for propstat in valid for each in propstat.findall(f"{_DAV}prop/*")}

    @property
    def key(self) -> str:
        return digest(self.path)

    def text(self, name: str) -> str:
        element = self.properties.get(name)
        return (element.text or "").strip() if element is not None else ""

    def has_type(self, name: str) -> bool:
        types = self.properties.get(f"{_DAV}resourcetype")
        return types is not None and types.find(name) is not None


class _Client:
    def __init__(self, book: Book, session: http.Session) -> None:
        self._book, self._session = book, session
        self._auth: tuple[bytes, bytes] | HTTPDigestAuth | None = book.credentials if book.user else None

    def members(self) -> dict[str, _Member]:
        """All cards by their keys. Raises BookFailed."""
        listed = self._ask("PROPFIND", _LIST)
        # The collection itself has the shortest path, whatever a proxy has made of it.
        collection = min(listed, key=lambda member: len(member.path), default=None)
        if collection is None or not collection.has_type(f"{_CARDDAV}addressbook"):
            raise BookFailed("the URL is not that of a CardDAV address book")
        if any(member.status == 507 for member in listed):
            raise BookFailed("the server does not list all cards")
        cards = (member for member in listed if not member.has_type(f"{_DAV}collection"))
        return {member.key: member for member in cards}

    def cards(self, hrefs: list[str], changes: Changes) -> None:
        """Add the cards to `changes`. Those of a response that cannot be read are asked for in halves: a server copies
        a card into XML as it is, and one control character makes all of it invalid."""
        listed = "".join(f"<href>{escape(href)}</href>" for href in hrefs)
        try:
            returned = {member.key: member for member in self._ask("REPORT", _MULTIGET.format(listed))}
        except _UnreadableResponse as error:
            if len(hrefs) > 1:
                middle = len(hrefs) // 2
                self.cards(hrefs[:middle], changes)
                self.cards(hrefs[middle:], changes)
                return
            unread = Card(_path(hrefs[0]), rejected=[Rejected(0, UNREADABLE, detail=str(error))])
            changes.not_returned.append(unread)
            changes.unreadable += 1
            return
        for href in hrefs:
            key = digest(_path(href))
            card, member = Card(_path(href)), returned.get(key)
            if member is None or not (text := member.text(f"{_CARDDAV}address-data")):
                status = member.status if member else 404
                refused = status not in (200, 404)  # 404: deleted since it was listed
                card.rejected.append(
                    Rejected(0, NO_CARD, detail="" if status == 200 or not member else f"status {status}")
                )
                changes.not_returned.append(card)
                changes.unreadable += refused
            else:
                # Without an ETag it is transferred by each run that lists it.
                etag = member.text(_ETAG)
                card.version = digest(etag) if etag else ""
                card.add(vcard.read(io.StringIO(f"{text}\n", newline=None), region=self._book.region))
                changes.cards[key] = card

    def _ask(self, method: str, body: str) -> list[_Member]:
        """The responses of the multistatus. Raises BookFailed."""
        headers = {"Content-Type": 'application/xml; charset="utf-8"', "Depth": "1", "Accept-Encoding": "identity"}
        try:
            with self._session.request(
                method, self._book.url, data=body.encode(), headers=headers, auth=self._auth
            ) as response:
                use_digest = response.status_code == 401 and self._can_use_digest(response)
                if not use_digest:
                    _require_multistatus(response)
                content = response.raw.read(MAX_RESPONSE_BYTES + 1, decode_content=False)
        except http.RequestFailed as error:
            raise BookFailed(str(error)) from None
        if use_digest:
            return self._ask(method, body)
        if len(content) > MAX_RESPONSE_BYTES:
            raise _UnreadableResponse(f"a response is larger than {MAX_RESPONSE_BYTES >> 20} MiB")
        return list(map(_Member, _parse(content).findall(f"{_DAV}response")))

    def _can_use_digest(self, response: requests.Response) -> bool:
        """Whether the server asks for digest authentication (RFC 7616), and got Basic; the next request uses it."""
        asks = "digest " in response.headers.get("WWW-Authenticate", "").lower()
        if not asks or not isinstance(self._auth, tuple):
            return False
        self._auth = HTTPDigestAuth(self._book.user, self._book.password)
        return True


def _require_multistatus(response: requests.Response) -> None:
    status = response.status_code
    if status == 207:
        return
    if 300 <= status < 400:
        raise BookFailed(f"the server redirects ({status}): set the URL of the address book itself")
    if status == 401:
        raise BookFailed("the server rejected the user or the password (401)")
    if status in (404, 410):
        raise BookFailed(f"the server has no address book at this URL ({status})")
    failed = _UnreadableResponse if status in (500, 502) else BookFailed
    raise failed(f"the server answered {status}")


class _NoDoctype(ElementTree.TreeBuilder):
    """WebDAV has no document types, which may declare entities that expand without limit."""

    def doctype(self, name: str, public_id: str | None, system_id: str | None) -> None:
        raise BookFailed("the server sent XML with a document type")


def _parse(content: bytes) -> Element:
    if sum(map(content.count, (b"<", b'"', b"'"))) > MAX_MARKUP:
        raise _UnreadableResponse("a response has too many elements or attributes")
    # No entity can be declared, and the parser never loads an external one.
    parser = ElementTree.XMLParser(target=_NoDoctype())  # noqa: S314
    try:
        parser.feed(content.lstrip(b"\xef\xbb\xbf \t\r\n"))  # a plugin of the server may print blank lines
        root = parser.close()
    except (ElementTree.ParseError, ValueError, LookupError):
        raise _UnreadableResponse("the server sent invalid XML") from None
    if not isinstance(root, Element) or root.tag != f"{_DAV}multistatus":
        raise BookFailed("the server sent XML that is not a list (DAV:multistatus)")
    return root


def _status(element: Element) -> int:
    found = _STATUS.match(element.findtext(f"{_DAV}status") or "")
    return int(found[1]) if found else 200


def _path(href: str) -> str:
    """The path of a URL or href; servers quote it in different ways."""
    try:
        return unquote(urlsplit(href).path)
    except ValueError:
        raise BookFailed("the server sent an invalid address of a card") from None
