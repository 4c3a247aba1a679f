"""A directory for telephones that speak LDAP, behind OpenLDAP's slapd, which speaks it: slapd sends each operation as
text to a Unix socket (slapd-sock(5)), on a connection of its own, and reads entries and a result code from it.

Whatever fails, the result is "no entry", within DEADLINE_S: the telephone then shows the number. slapd itself has no
time limit for an answer. A filter is not evaluated: a number in it finds that number's entry, and without one a name
finds the contacts that have it as a part. slapd sends all entries on. Telephones compare the number of an entry with
the caller's, digit by digit: an entry has it as it was asked for, in the attributes that were asked for, and with its
country code. With LDAP_TOKEN, the API is searched for a number without an entry, which costs a credit.
"""

import asyncio
import hmac
import logging
import re
from base64 import b64encode
from contextlib import nullcontext
from itertools import islice
from pathlib import Path

from django.conf import settings
from django.db import transaction

from contrib.telephones import directory, paid_search
from core import db, loop
from core.database_errors import describe

log = logging.getLogger(__name__)

#: As in integrations/ldap/slapd.conf.
SUFFIX = "dc=callerid"
USER = f"cn=telephone,{SUFFIX}"
MAX_ENTRIES = 50
#: A telephone waits for a few seconds.
DEADLINE_S = 2.0
MAX_REQUEST_BYTES = 2**16
#: Characters of a part of a name.
MIN_NAME = 2

SUCCESS, INVALID_CREDENTIALS, UNWILLING_TO_PERFORM = 0, 49, 53
#: Attribute and value of an assertion in a filter, for equality or substrings. slapd escapes parentheses in values, and
#: puts a question mark before attributes that it does not know.
_ASSERTION = re.compile(r"\(\??([\w.;-]+)~?=([^()]*)\)")
_ENTRY = re.compile(f"uid=([0-9]+),{SUFFIX}", re.IGNORECASE)
_ESCAPED = re.compile(rb"\\([0-9A-Fa-f]{2})")
#: Attributes of numbers, of inetOrgPerson: slapd drops an entry with one that it does not know.
_NUMBERS = {"telephonenumber": "telephoneNumber", "mobile": "mobile", "homephone": "homePhone"}
#: What telephoneNumber may have, but spaces and hyphens, which do not count in it: slapd drops an entry with others, or
#: with equal values.
_NOT_IN_NUMBERS = re.compile(r"[^0-9+().]")
_NAMES = frozenset({"cn", "sn", "givenname", "displayname", "o", "company"})


async def serve(path: Path) -> asyncio.Server:
    """Starts to answer on a socket at `path`, for its owner and group. Raises OSError."""
    server = await asyncio.start_unix_server(_answer, path, limit=MAX_REQUEST_BYTES)
    path.chmod(0o660)
    return server


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    reply = _result(INVALID_CREDENTIALS)  # unless it is known to be a search, it may be a login
    try:
        async with asyncio.timeout(DEADLINE_S):
            request = (await reader.readuntil(b"\n\n")).decode("utf-8", "replace")
            if request.startswith("SEARCH\n"):
                reply = _result(SUCCESS)  # whatever happens, the telephone rings
            reply = await respond(request)
    except Exception as error:
        log.warning("directory: no entry, %s", describe(error))
    writer.write(reply)
    writer.close()


async def respond(request: str) -> bytes:
    """The reply to one operation. Raises django.db's errors, and KeyError and ValueError for a request of another
    form."""
    operation, *lines = request.strip("\n").split("\n")
    fields = dict(line.partition(": ")[::2] for line in lines)
    if operation == "SEARCH":
        limit = int(fields["sizelimit"])
        found = _ENTRY.fullmatch(fields.get("base", ""))  # which a telephone reads that has found it before
        filter_ = f"(uid=+{found[1]}*)" if found else fields["filter"]
        entries = await _search(filter_, min(limit, MAX_ENTRIES) if limit > 0 else MAX_ENTRIES)
        assertions = _assertions(fields["filter"])
        return b"".join(_ldif(entry, assertions) for entry in entries) + _result(SUCCESS)
    if operation == "BIND":
        password, given = settings.LDAP_PASSWORD, fields.get("cred", "")
        same = hmac.compare_digest(*(text.encode("utf-8", "surrogateescape") for text in (given, password)))
        matches = same and fields["dn"].casefold() == USER
        if password and matches:
            return _result(SUCCESS)
        log.warning("directory: a login was refused")
        return _result(INVALID_CREDENTIALS)
    return b"" if operation == "UNBIND" else _result(UNWILLING_TO_PERFORM)


async def _search(filter_: str, limit: int) -> list[directory.Entry]:
    """At most `limit` entries; none for an incomplete number, such as one that is being typed."""
    assertions = _assertions(filter_)
    numbers = dict.fromkeys(filter(None, (directory.full_number(text) for _, text in assertions)))
    names = [text for attribute, text in assertions if attribute in _NAMES and any(map(str.isalpha, text))]
    names = [text for text in dict.fromkeys(names) if len(text) >= MIN_NAME]

    def find() -> list[directory.Entry]:
        with transaction.atomic() if db.VENDOR == "postgresql" else nullcontext():
            if db.VENDOR == "postgresql":  # which would continue after the deadline
                db.run("SELECT set_config('statement_timeout', %s, true)", [f"{DEADLINE_S * 1000:.0f}"])
            if numbers:
                return [entry for number in islice(numbers, limit) if (entry := directory.of_number(number))]
            return directory.with_names(names, limit) if names else []

    entries = await loop.run_with_connection(find) if numbers or names else []
    if settings.LDAP_TOKEN and len(numbers) == 1 and not entries:
        [number] = numbers
        values = [value for _, value in _ASSERTION.findall(filter_) if "*" not in value]
        if any(directory.full_number(_unescaped(value)) == number for value in values):
            entry = await paid_search.shared_search(number, timeout_s=DEADLINE_S)
            entries = [entry] if entry else []
    log.info("directory: search by %s, %d found", "number" if numbers else "name", len(entries))
    return entries


def _assertions(filter_: str) -> list[tuple[str, str]]:
    """Attributes, in lower case, and the texts of their values."""
    return [(attribute.lower(), _unescaped(value)) for attribute, value in _ASSERTION.findall(filter_)]


def _unescaped(value: str) -> str:
    """The text of a value, without the asterisks of substrings at both ends."""
    octets = _ESCAPED.sub(lambda found: bytes.fromhex(found[1].decode()), value.strip("*").encode())
    return octets.decode("utf-8", "replace").strip()


def _ldif(entry: directory.Entry, assertions: list[tuple[str, str]]) -> bytes:
    """LDIF (RFC 2849), with all texts in base64. The DN has no +, which slapd 2.5 would drop the entry for."""
    values = {"cn": entry.name, "sn": entry.name, "displayName": entry.name, "l": entry.location}
    lines = [f"dn: uid={entry.number},{SUFFIX}", "objectClass: inetOrgPerson", f"uid: {entry.number}"]
    lines += [f"{name}:: {b64encode(text.encode()).decode()}" for name, text in values.items() if text]
    asked = [(attribute, _NOT_IN_NUMBERS.sub("", text)) for attribute, text in assertions]
    asked = [(attribute, text) for attribute, text in asked if directory.full_number(text) == entry.number]
    forms = [text for _, text in asked] or [directory.dialed_number(entry.number)]
    numbers = [("telephoneNumber", text) for text in (*forms, f"+{entry.number}")]
    numbers += [(_NUMBERS[attribute], text) for attribute, text in asked if attribute in _NUMBERS]
    lines += [f"{name}: {text}" for name, text in dict.fromkeys(numbers)]
    return "\n".join([*lines, "", ""]).encode()


def _result(code: int) -> bytes:
    return f"RESULT\ncode: {code}\n\n".encode()
