"""Gets the entries of an LDAP directory, with OpenLDAP's program `ldapsearch`.

LDAP has no change log that all servers share. So each run reads all entries, in pages (RFC 2696), with the attributes
that are used; those whose values are as before are skipped. An entry is gone when a complete list lacks it.
"""

import base64
import io
import os
import shutil
import subprocess
import threading
import time
from binascii import Error as InvalidBase64
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import chain
from urllib.parse import urlsplit

import certifi
from django.conf import settings

from contrib.address_books.books import Book, BookFailed, Card, Changes, LDAPQuery, digest
from core.text import clean_text
from phonebook.imports.readers import base
from phonebook.imports.readers.base import ContactRow, Rejected

PROGRAM = "ldapsearch"
CONNECT_TIMEOUT_S = 10
#: Of one search, however slowly its result arrives.
SEARCH_TIMEOUT_S = 600.0
MAX_RESULT_BYTES = 256 * 2**20
PAGE = 500

# RFC 4530; Active Directory.
_IDS = ("entryUUID", "objectGUID")
# In the assertion value of a filter (RFC 4515).
_UNESCAPED = frozenset(b"-0123456789abcdefABCDEF")
_NAMES = ("displayName", "cn", "o")
#: City, state, country, and its code.
_PLACES = ("l", "st", "co", "c")
_EXPLAINED = {
    4: "the server's size limit ended the list",
    3: "the server's time limit ended the list",
    1: "the server's TLS certificate was rejected (StartTLS), or it requires a user",
    8: "the server requires stronger authentication",
    11: "an administrative limit of the server ended the list",
    13: "the server requires TLS",
    32: "the server has no such base",
    34: "the server says that the base or the user is no valid DN",
    48: "the server refuses this way to log in",
    49: "the server rejected the user or the password",
    50: "the user may not read the entries",
    80: "the server failed, or closed the connection before the list was complete",
    87: "the filter is invalid",
    249: "the filter is invalid",
    **dict.fromkeys((245, 254, 255), "the server could not be reached, or its TLS certificate was rejected"),
}
Entry = dict[str, list[bytes]]


def fetch(book: Book, *, known: Mapping[str, str]) -> Changes:
    """`known` (key → version): of the last run, empty for the first. Raises BookFailed."""
    query = book.query
    assert query is not None  # noqa: S101 (books.read)
    changes = Changes(removed=set(known))
    for entry in _search(book, query, (*_IDS, *query.attributes, *_NAMES, *_PLACES)):
        attribute, id_ = _id(entry)
        key, version = digest(f"{attribute}={id_!r}"), digest(repr(sorted(entry.items())))
        changes.removed.discard(key)
        if known.get(key) != version:
            # The filter with which ldapsearch finds the entry: unlike its DN, it has no name.
            escaped = "".join(chr(byte) if byte in _UNESCAPED else f"\\{byte:02x}" for byte in id_)
            changes.cards[key] = card = Card(f"({attribute}={escaped})", version)
            card.add(_rows(entry, query, book.region))
    return changes


def _rows(entry: Entry, query: LDAPQuery, region: str | None) -> Iterator[ContactRow | Rejected]:
    """A row for each number, in the order of the attributes; `line` counts them from 1."""
    name = next(filter(None, (_text(entry, attribute) for attribute in _NAMES)), "")
    city, state, country, country_code = (_text(entry, attribute) for attribute in _PLACES)
    location = base.location(city, state, country or country_code)
    values = [value for attribute in query.attributes for value in entry.get(attribute.lower(), ())]
    texts = [value.decode("utf-8", "replace").strip().removeprefix("tel:") for value in values]
    entries = ((line, text, name, location) for line, text in enumerate(texts, 1) if text)
    return base.contact_rows(entries, region, line=0)


def _text(entry: Entry, attribute: str) -> str:
    return clean_text(next(iter(entry.get(attribute.lower(), ())), b"").decode("utf-8", "replace"))


def _id(entry: Entry) -> tuple[str, bytes]:
    for attribute in _IDS:
        if values := entry.get(attribute.lower()):
            return attribute, values[0]
    raise BookFailed("the server returns entries without an entryUUID or objectGUID")


# --- The program -----------------------------------------------------------------------------------------------------


def _search(book: Book, query: LDAPQuery, attributes: tuple[str, ...]) -> Iterator[Entry]:
    """All entries, if the list is complete; attributes' names are in lower case."""
    program = shutil.which(PROGRAM)
    if program is None:
        raise BookFailed("there is no ldapsearch on PATH: install OpenLDAP's clients (Debian: ldap-utils)")
    command = [
        *(program, "-LLL", "-x", "-o", "ldif_wrap=no", "-o", f"nettimeout={CONNECT_TIMEOUT_S}"),
        *("-E", f"pr={PAGE}/noprompt", "-z", "none", "-l", str(int(SEARCH_TIMEOUT_S))),
        *("-H", book.url, "-b", query.base, "-s", query.scope),
    ]
    if urlsplit(book.url).scheme == "ldap" and not book.is_loopback:
        command += ["-ZZ"]  # StartTLS, or no connection
    if book.user:
        command += ["-D", book.user, "-y", "/dev/stdin"]  # other users of the machine can read arguments
    return _entries(_run([*command, query.filter, *attributes], book.credentials[1]))


def _run(command: list[str], password: bytes) -> bytes:
    """The output of ldapsearch. Raises BookFailed unless the list is complete."""
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "LDAPTLS_REQCERT": "demand",  # whatever ldap.conf says
        "LDAPTLS_CACERT": settings.CA_BUNDLE or certifi.where(),
        "LDAPREFERRALS": "off",
    }
    started = time.monotonic()
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdin is not None  # noqa: S101 (a pipe)
        assert process.stdout is not None  # noqa: S101 (a pipe)
        timer = threading.Timer(SEARCH_TIMEOUT_S, process.kill)
        timer.start()
        try:
            with suppress(BrokenPipeError), process.stdin:
                process.stdin.write(password)
            output = process.stdout.read(MAX_RESULT_BYTES + 1)
            if len(output) > MAX_RESULT_BYTES:
                raise BookFailed(f"the result is larger than {MAX_RESULT_BYTES >> 20} MiB")
            code = process.wait()
        finally:
            timer.cancel()
            process.kill()
    if time.monotonic() - started >= SEARCH_TIMEOUT_S:
        raise BookFailed(f"the result did not arrive within {SEARCH_TIMEOUT_S:,.0f} s")
    if code:
        raise BookFailed(_EXPLAINED.get(code, f"ldapsearch ended with the result code {code}"))
    return output


def _entries(ldif: bytes) -> Iterator[Entry]:
    """The entries of LDIF (RFC 2849) with one line for each value. An attribute's options are ignored."""
    entry: Entry = {}
    for ended in chain(io.BytesIO(ldif), [b"\n"]):
        line = ended.rstrip(b"\n")
        if not line and entry:
            yield entry
            entry = {}
        attribute, colon, value = line.partition(b":")
        if not colon or line.startswith(b"#"):
            continue
        try:
            value = base64.b64decode(value[1:]) if value.startswith(b":") else value.removeprefix(b" ")
        except InvalidBase64:
            raise BookFailed("ldapsearch returned invalid LDIF") from None
        name = attribute.decode("ascii", "replace").partition(";")[0].lower()
        entry.setdefault(name, []).append(value)
