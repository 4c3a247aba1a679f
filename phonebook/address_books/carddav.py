"""Gets what has changed in a CardDAV address book (RFC 6352).

With WebDAV Sync (RFC 6578) one REPORT names the changed and deleted cards since the last run's sync token. Without it,
or with a token that the server does not accept any more, all cards are listed, and their ETags compared. Only cards
that are new or changed are transferred.
"""

import io
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit
from xml.etree import ElementTree
from xml.etree.ElementTree import Element
from xml.sax.saxutils import escape

import requests

from core import http
from core.addresses import policy_for
from phonebook.address_books.books import Book, BookFailed, Card, Changes, digest, label
from phonebook.imports.readers import vcard
from phonebook.imports.readers.base import Rejected
from phonebook.imports.staging import chunks

#: Of one response, however slowly its body arrives.
RESPONSE_TIMEOUT_S = 600.0
MAX_RESPONSE_BYTES = 64 * 2**20
#: Of "<" and quotation marks: an element or attribute takes up to 400 bytes of memory. A list has 16 for each card.
MAX_MARKUP = 2_000_000
#: Cards that one request asks for. They may have pictures.
BATCH = 50
#: A server may answer a sync-collection in pages, each with a token for the next.
MAX_PAGES = 10_000

NO_CARD = "the server did not return the card"
_DAV, _CARDDAV = "{DAV:}", "{urn:ietf:params:xml:ns:carddav}"
_STATUS = re.compile(r"HTTP/\S+ ([0-9]{3})\b")

_PROPFIND = '<?xml version="1.0" encoding="utf-8"?><propfind xmlns="DAV:"><prop>{}</prop></propfind>'
_COLLECTION_PROPERTIES = _PROPFIND.format("<resourcetype/><supported-report-set/>")
_LIST = _PROPFIND.format("<resourcetype/><getetag/>")
_SYNC = (
    '<?xml version="1.0" encoding="utf-8"?><sync-collection xmlns="DAV:"><sync-token>{}</sync-token>'
    "<sync-level>1</sync-level><prop><getetag/></prop></sync-collection>"
)
_MULTIGET = (
    '<?xml version="1.0" encoding="utf-8"?><C:addressbook-multiget xmlns="DAV:" '
    'xmlns:C="urn:ietf:params:xml:ns:carddav"><prop><getetag/><C:address-data/></prop>{}</C:addressbook-multiget>'
)


def fetch(book: Book, *, sync_token: str, known: Mapping[str, str]) -> Changes:
    """`sync_token` and `known` (key → version): of the last run; both are empty for the first. Raises BookFailed."""
    policy = policy_for(book.url, private_network=True)
    # It follows no redirects: they may lead to another host, without the credentials or with them.
    with http.Session(book.url, policy, timeout_s=RESPONSE_TIMEOUT_S) as session:
        client = _Client(book, session)
        listing = None
        if sync_token:
            with suppress(_Refused):  # the server does not accept the token (DAV:valid-sync-token)
                listing = client.sync(sync_token)
        if listing is None:
            listing = client.list_all()
            listing.removed = set(known) - set(listing.found)
        changes = Changes(removed=listing.removed & set(known), sync_token=listing.sync_token)
        found = listing.found.items()
        wanted = (href for key, (href, etag) in found if not etag or known.get(key) != digest(etag))
        for hrefs in chunks(wanted, BATCH):
            client.cards(hrefs, changes)
        if changes.not_returned:
            changes.sync_token = sync_token  # so that the next run asks for them again
        return changes


@dataclass(slots=True)
class _Listing:
    """`found`: key → href and ETag."""

    found: dict[str, tuple[str, str]] = field(default_factory=dict)
    removed: set[str] = field(default_factory=set)
    sync_token: str = ""


class _Member:
    """A response of a multistatus. `status`: of the whole resource, 200 unless the server says so."""

    def __init__(self, response: Element) -> None:
        self.href = (response.findtext(f"{_DAV}href") or "").strip()
        self.status = _status(response)
        valid = (propstat for propstat in response.findall(f"{_DAV}propstat") if _status(propstat) == 200)
        self.properties = {each.tag: each for propstat in valid for each in propstat.findall(f"{_DAV}prop/*")}

    @property
    def key(self) -> str:
        return digest(_path(self.href))

    def text(self, name: str) -> str:
        element = self.properties.get(name)
        return (element.text or "").strip() if element is not None else ""


class _Refused(BookFailed):
    """The server answered with an error to which there is an alternative."""


class _Client:
    def __init__(self, book: Book, session: http.Session) -> None:
        self._book, self._session = book, session
        self._path = _path(book.url)
        self._auth = book.credentials if book.user else None

    def list_all(self) -> _Listing:
        collection = next(iter(self._ask("PROPFIND", _COLLECTION_PROPERTIES, depth="0")[0]), None)
        types = collection.properties.get(f"{_DAV}resourcetype") if collection else None
        if collection is None or types is None or types.find(f"{_CARDDAV}addressbook") is None:
            raise BookFailed("the URL is not that of a CardDAV address book")
        reports = collection.properties.get(f"{_DAV}supported-report-set")
        if reports is not None and reports.find(f".//{_DAV}sync-collection") is not None:
            with suppress(_Refused):  # such as 507: it does not list that many
                return self.sync("")
        listing = _Listing()
        for member in self._ask("PROPFIND", _LIST, depth="1")[0]:
            if member.status == 507:
                raise BookFailed("the server does not list all cards")
            types = member.properties.get(f"{_DAV}resourcetype")
            if types is None or types.find(f"{_DAV}collection") is None:
                self._add(listing, member)
        return listing

    def cards(self, hrefs: list[str], changes: Changes) -> None:
        """Add the cards to `changes`."""
        listed = "".join(f"<href>{escape(href)}</href>" for href in hrefs)
        returned = {member.key: member for member in self._ask("REPORT", _MULTIGET.format(listed), depth="1")[0]}
        for href in hrefs:
            key = digest(_path(href))
            card, member = Card(label(_path(href))), returned.get(key)
            if member is None or not (text := member.text(f"{_CARDDAV}address-data")):
                status = f"status {member.status}" if member and member.status != 200 else ""
                card.rejected.append(Rejected(0, NO_CARD, detail=status))
                changes.not_returned.append(card)
            else:
                # Without an ETag it is transferred by each run that lists it.
                etag = member.text(f"{_DAV}getetag")
                card.version = digest(etag) if etag else ""
                card.add(vcard.read(io.StringIO(text, newline=None), region=self._book.region))
                changes.cards[key] = card

    def sync(self, sync_token: str) -> _Listing:
        """The changes since `sync_token`; empty: all cards. Raises BookFailed, and _Refused as `_ask`."""
        listing = _Listing(sync_token=sync_token)
        for _ in range(MAX_PAGES):
            members, token = self._ask("REPORT", _SYNC.format(escape(listing.sync_token)), depth="0")
            truncated = False
            for member in members:
                if member.status == 507:
                    truncated = True
                elif member.status in (404, 410):
                    listing.found.pop(member.key, None)
                    listing.removed.add(member.key)
                else:
                    listing.removed.discard(member.key)
                    self._add(listing, member)
            if truncated and token in ("", listing.sync_token):
                break
            listing.sync_token = token
            if not truncated:
                return listing
        raise BookFailed("the server does not end its list of changes")

    def _add(self, listing: _Listing, member: _Member) -> None:
        path = _path(member.href)
        if path.rstrip("/") != self._path.rstrip("/") and not path.endswith("/"):
            listing.found[member.key] = (member.href, member.text(f"{_DAV}getetag"))

    def _ask(self, method: str, body: str, *, depth: str) -> tuple[list[_Member], str]:
        """The responses of the multistatus, and its sync token. Raises BookFailed, and _Refused for 4xx and 507."""
        headers = {"Content-Type": 'application/xml; charset="utf-8"', "Depth": depth, "Accept-Encoding": "identity"}
        try:
            with self._session.request(
                method, self._book.url, data=body.encode(), headers=headers, auth=self._auth
            ) as response:
                _require_multistatus(response)
                content = response.raw.read(MAX_RESPONSE_BYTES + 1, decode_content=False)
        except http.RequestFailed as error:
            raise BookFailed(str(error)) from None
        if len(content) > MAX_RESPONSE_BYTES:
            raise BookFailed(f"a response is larger than {MAX_RESPONSE_BYTES >> 20} MiB")
        root = _parse(content)
        return list(map(_Member, root.findall(f"{_DAV}response"))), (root.findtext(f"{_DAV}sync-token") or "").strip()


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
    if status == 429 or (status >= 500 and status != 507):
        raise BookFailed(f"the server answered {status}")
    raise _Refused(f"the server refused the request ({status})")


class _NoDoctype(ElementTree.TreeBuilder):
    """WebDAV has no document types, which may declare entities that expand without limit."""

    def doctype(self, name: str, public_id: str | None, system_id: str | None) -> None:
        raise BookFailed("the server sent XML with a document type")


def _parse(content: bytes) -> Element:
    if sum(map(content.count, (b"<", b'"', b"'"))) > MAX_MARKUP:
        raise BookFailed("a response has too many elements or attributes")
    # No entity can be declared, and the parser never loads an external one.
    parser = ElementTree.XMLParser(target=_NoDoctype())  # noqa: S314
    try:
        parser.feed(content)
        root = parser.close()
    except (ElementTree.ParseError, ValueError, LookupError):
        raise BookFailed("the server sent invalid XML") from None
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
