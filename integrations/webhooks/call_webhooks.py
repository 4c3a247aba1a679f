#!/usr/bin/env python3
"""Answers the webhooks of Twilio (TwiML) and Telnyx (TeXML) for incoming calls: the telephone shows the caller's name.

A WSGI application with the paths /twilio and /telnyx. It needs Python 3.9 or newer and, for Telnyx, the package
cryptography. docs/telephone-systems.md describes the installation.

    gunicorn --threads 8 call_webhooks:application
    call_webhooks.py --check [NUMBER]      says what is wrong with the settings, without a call

Settings come from the environment: CALLERID_TOKEN, CALLERID_URL and those in that page, and
    CALLERID_DIAL               whom to call: sip:100@pbx.example.org, or for Twilio client:alice
    CALLERID_TWILIO_AUTH_TOKEN  of your Twilio account
    CALLERID_TWILIO_WEBHOOK     the address of /twilio as it is set at Twilio, character by character
    CALLERID_TELNYX_PUBLIC_KEY  of your Telnyx account
"""

import base64
import hashlib
import hmac
import http.client
import json
import os
import re
import sys
import threading
import time
import unicodedata
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, quote, urlsplit
from xml.sax.saxutils import escape, quoteattr

#: For the whole search, name resolution included.
TIMEOUT_S = 1.5
MAX_ANSWER_BYTES = 8192
MAX_NAME_BYTES = 64
MAX_WEBHOOK_BYTES = 65536
#: As Telnyx's own clients have it.
MAX_AGE_S = 300
#: What Unicode calls formats, fillers and variation selectors: they show nothing.
INVISIBLE = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f"
    "\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d159\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
NOT_DISPLAYED = re.compile(f'[\x00-\x1f\x7f-\x9f"\\\\<>;{INVISIBLE}\ud800-\udfff]')
#: Between digits: spaces, dots, strokes, brackets, and dashes and spaces of every script.
SEPARATORS = re.compile(rf"[\s./()\[\]\-\u2010-\u2015\u2212\uff0d{INVISIBLE}]")
#: No country code begins with 0. Behind 1, North America's, come ten digits, the first from 2 to 9.
NUMBER = re.compile("1[2-9][0-9]{9}|[2-9][0-9]{6,14}")
#: Where a zero at the beginning is a part of the number, and no trunk prefix: Italy, Ivory Coast, Benin, Gabon, Congo,
#: San Marino, Vatican City.
ZERO_STAYS = {"39", "225", "229", "241", "242", "378", "379"}
#: What Twilio sends for a caller without a number: RESTRICTED, BLOCKED, UNKNOWN, ANONYMOUS, UNAVAILABLE in the letters
#: of a telephone's keys (https://help.twilio.com/articles/223179988).
WITHHELD = {"7378742833", "2562533", "8656696", "266696687", "86282452253"}


class NoAnswer(Exception):
    """Why the service gave no answer. The message holds nothing that was sent."""


class Caller(NamedTuple):
    """What the service knows. `name` has the spam mark."""

    name: str = ""
    spam: bool = False


def setting(name: str, default: str = "") -> str:
    """A line of a file that was written on Windows, or a secret from a file, may end with a line break."""
    return os.environ.get(f"CALLERID_{name}", default).strip("\r\n")


def full_number(caller: str) -> str:
    """The number with its country code, digits only; empty if it is none or is withheld. `caller` may be an address."""
    country, lengths = setting("COUNTRY_CODE"), setting("NATIONAL_DIGITS")
    trunk = "" if country in ZERO_STAYS else setting("TRUNK_PREFIX")
    international = setting("INTERNATIONAL_PREFIX", "00")

    def is_national(digits: str) -> bool:
        least, _, most = lengths.partition("-")
        return least.isdecimal() and int(least) <= len(digits) <= int(most or least)

    if caller.endswith("@anonymous.invalid"):  # RFC 3323
        return ""
    digits = SEPARATORS.sub("", re.sub(r"^(?:tel|sips?):([^@;]*).*", r"\1", caller, flags=re.DOTALL | re.IGNORECASE))
    digits = re.sub(r"^\+00", "00", re.sub("^(%2[Bb]|\uff0b)", "+", digits))
    if re.fullmatch(r"\+[0-9]+", digits):
        digits = digits[1:]
    elif not re.fullmatch(r"[0-9]+", digits):
        return ""
    elif international and digits.startswith(international):
        digits = digits[len(international) :]
    elif country and trunk and digits.startswith(trunk) and (not lengths or is_national(digits[len(trunk) :])):
        digits = country + digits[len(trunk) :]
    elif country and is_national(digits):
        digits = country + digits
    if country and trunk and digits.startswith(country + trunk):  # +49 030: dialed at home only
        rest = digits[len(country + trunk) :]
        if is_national(rest) if lengths else trunk.startswith("0"):
            digits = country + rest
    return digits if NUMBER.fullmatch(digits) and digits not in WITHHELD else ""


def clean_name(name: object) -> str:
    """A name in one line, at most 64 bytes, nothing invisible or with a meaning in SIP."""
    text = NOT_DISPLAYED.sub(" ", name) if isinstance(name, str) else ""
    text = re.sub(" +", " ", text).strip(" ")
    return text.encode()[:MAX_NAME_BYTES].decode(errors="ignore")


def search(number: str, call: str) -> dict[str, Any]:
    """The answer. Raises NoAnswer, OSError, HTTPException or ValueError if there is no valid one."""
    url = urlsplit(setting("URL", "http://127.0.0.1:8000").rstrip("/"))
    if url.scheme not in ("http", "https") or not url.hostname:
        raise NoAnswer("CALLERID_URL is not an address such as https://callerid.example.org")
    if not setting("TOKEN"):
        raise NoAnswer("CALLERID_TOKEN is not set")
    kind = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
    connection = kind(url.hostname, url.port, timeout=TIMEOUT_S)
    # The same for each delivery of one call, so that none is charged twice.
    key = hashlib.sha256(f"{call} {number}".encode()).hexdigest()
    headers = {"Content-Type": "application/json", "Idempotency-Key": f"webhook-{key}"}
    body = json.dumps({"api_key": setting("TOKEN"), "query": number})
    try:
        connection.request("POST", f"{url.path}/callerid/search", body, headers)
        response = connection.getresponse()
        if response.status != http.client.OK:
            raise NoAnswer(f"status {response.status}")
        content = response.read(MAX_ANSWER_BYTES + 1)
    finally:
        connection.close()
    try:
        answer = json.loads(content) if len(content) <= MAX_ANSWER_BYTES else None
    except (ValueError, RecursionError):
        answer = None
    if not isinstance(answer, dict) or not isinstance(answer.get("data"), dict):
        raise NoAnswer("not an answer of the service")
    return answer


def search_in_time(number: str, call: str) -> dict[str, Any]:
    """As `search`, but within TIMEOUT_S, even if the answer arrives a byte at a time. Raises NoAnswer only."""
    found: dict[str, Any] = {}
    failure: Exception | None = None

    def run() -> None:
        nonlocal found, failure
        try:
            found = search(number, call)
        except Exception as error:  # whatever happens, the call goes on
            failure = error

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(TIMEOUT_S)
    if thread.is_alive() or isinstance(failure, TimeoutError):
        raise NoAnswer("no answer in time")
    if isinstance(failure, NoAnswer):
        raise failure
    if failure:
        raise NoAnswer(type(failure).__name__)  # a library's message may quote what was sent
    return found


def identify(caller: str, call: str) -> Caller:
    """What the service knows about a caller; nothing on an error, which is logged."""
    number = full_number(caller)
    if not number:
        return Caller()
    try:
        data = search_in_time(number, call)["data"]
    except NoAnswer as error:
        sys.stderr.write(f"caller identification: no name, {error}\n")
        return Caller()
    a, b = (source if isinstance(source, dict) else {} for source in (data.get("source_a"), data.get("source_b")))
    name = clean_name(a.get("name")) or clean_name(b.get("name"))
    spam = b.get("spam") is True
    return Caller(setting("SPAM_MARK", "Spam: ") + (name or f"+{number}") if spam else name, spam)


def signed_by_twilio(headers: dict[str, str], body: bytes) -> bool:
    """https://www.twilio.com/docs/usage/security: HMAC-SHA1 of the address and the sorted parameters."""
    text = "".join(name + value for name, value in sorted(set(parameters(body))))
    key, given = setting("TWILIO_AUTH_TOKEN").encode(), headers.get("x-twilio-signature", "").encode()
    signatures = (
        base64.b64encode(hmac.digest(key, f"{address}{text}".encode(), "sha1"))
        for address in signed_addresses(setting("TWILIO_WEBHOOK"))
    )
    return any(hmac.compare_digest(signature, given) for signature in signatures)


def signed_addresses(address: str) -> Iterable[str]:
    """The webhook's address as Twilio may sign it: with or without port; with user and password, user, or neither."""
    url = urlsplit(address)
    login, _, place = url.netloc.rpartition("@")
    host = re.sub(":[0-9]*$", "", place)
    for user in dict.fromkeys((f"{login}@", f"{login.partition(':')[0]}@", "") if login else ("",)):
        for server in dict.fromkeys((place, host, f"{host}:{443 if url.scheme == 'https' else 80}")):
            yield address.replace(url.netloc, user + server, 1)


def signed_by_telnyx(headers: dict[str, str], body: bytes) -> bool:
    """Ed25519 of "timestamp|body", at most five minutes ago."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    timestamp = headers.get("telnyx-timestamp", "")
    try:
        signature = base64.b64decode(headers.get("telnyx-signature-ed25519", ""), validate=True)
        if not re.fullmatch("[0-9]{1,12}", timestamp) or abs(time.time() - int(timestamp)) > MAX_AGE_S:
            return False
        key = Ed25519PublicKey.from_public_bytes(base64.b64decode(setting("TELNYX_PUBLIC_KEY")))
        key.verify(signature, timestamp.encode() + b"|" + body)
    except (ValueError, InvalidSignature):
        return False
    return True


def twiml(caller: Caller) -> str:
    """Twilio cannot set a display name: a header tells it to the telephone system, a parameter to a client."""
    values = [("name", caller.name)] if caller.name else []
    values += [("spam", "yes")] if caller.spam else []
    kind, _, address = setting("DIAL").partition(":")
    if kind == "client":
        more = "".join(
            f"<Parameter name={quoteattr(f'caller_{key}')} value={quoteattr(value)}/>" for key, value in values
        )
        noun = f"<Client><Identity>{escape(address)}</Identity>{more}</Client>"
    else:
        query = "&".join(f"X-Caller-{key.title()}={quote(value, safe='')}" for key, value in values)
        noun = f"<Sip>{escape(with_query(setting('DIAL'), query))}</Sip>"
    # Without answerOnBridge, the call is answered at once.
    return f'<Response><Dial answerOnBridge="true">{noun}</Dial></Response>'


def with_query(address: str, query: str) -> str:
    return address + (("&" if "?" in address else "?") + query if query else "")


def texml(caller: Caller) -> str:
    """`fromDisplayName` has letters, numbers, spaces and -_~!.+ only. Accents are removed; other letters are lost."""
    plain = unicodedata.normalize("NFKD", caller.name).encode("ascii", "ignore").decode()
    name = re.sub(" +", " ", re.sub(r"[^A-Za-z0-9 \-_~!.+]", " ", plain)).strip()
    shown = f" fromDisplayName={quoteattr(name)}" if name else ""
    return f"<Response><Dial{shown}><Sip>{escape(setting('DIAL'))}</Sip></Dial></Response>"


class Vendor(NamedTuple):
    """`secret`: the setting without which the vendor's path does not exist."""

    secret: str
    is_signed: Callable[[dict[str, str], bytes], bool]
    document: Callable[[Caller], str]


VENDORS = {
    "/twilio": Vendor("TWILIO_AUTH_TOKEN", signed_by_twilio, twiml),
    "/telnyx": Vendor("TELNYX_PUBLIC_KEY", signed_by_telnyx, texml),
}


def parameters(body: bytes) -> list[tuple[str, str]]:
    return parse_qsl(body.decode(errors="replace"), keep_blank_values=True)


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """WSGI. Answers 403 to a request that the vendor has not signed."""

    def respond(status: str, kind: str = "text/plain", text: str = "") -> Iterable[bytes]:
        content = (text or status).encode()
        start_response(status, [("Content-Type", f"{kind}; charset=utf-8"), ("Content-Length", str(len(content)))])
        return [content]

    vendor = VENDORS.get(environ.get("PATH_INFO", ""))
    if vendor is None or not setting(vendor.secret):
        return respond("404 Not Found")
    if not setting("DIAL"):  # so that the vendor uses the number's fallback address
        sys.stderr.write("caller identification: CALLERID_DIAL is not set\n")
        return respond("500 Internal Server Error")
    if environ["REQUEST_METHOD"] != "POST":
        return respond("405 Method Not Allowed")
    length = environ.get("CONTENT_LENGTH") or ""
    if not re.fullmatch("[0-9]{1,9}", length) or int(length) > MAX_WEBHOOK_BYTES:
        return respond("413 Content Too Large")
    body = environ["wsgi.input"].read(int(length))
    headers = {
        key[5:].replace("_", "-").lower(): str(value) for key, value in environ.items() if key.startswith("HTTP_")
    }
    if not vendor.is_signed(headers, body):
        return respond("403 Forbidden")
    call = dict(parameters(body))
    caller = identify(call.get("From", ""), call.get("CallSid", ""))
    return respond("200 OK", "application/xml", f'<?xml version="1.0" encoding="UTF-8"?>\n{vendor.document(caller)}')


def check(caller: str) -> str:
    """What is wrong with the settings, or the credits left after a search, which costs one."""
    if not re.fullmatch(r"(sips?:[^@\s]+@\S+|client:\S+)", setting("DIAL")):
        return "CALLERID_DIAL is not an address such as sip:100@pbx.example.org"
    if not setting("TWILIO_AUTH_TOKEN") and not setting("TELNYX_PUBLIC_KEY"):
        return "CALLERID_TWILIO_AUTH_TOKEN and CALLERID_TELNYX_PUBLIC_KEY are not set"
    if setting("TWILIO_AUTH_TOKEN") and not setting("TWILIO_WEBHOOK").startswith("https://"):
        return "CALLERID_TWILIO_WEBHOOK is not an address such as https://callerid.example.org/twilio"
    if setting("TELNYX_PUBLIC_KEY"):
        if setting("DIAL").startswith("client:"):
            return "CALLERID_DIAL is not an address such as sip:100@pbx.example.org"
        try:
            from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

            Ed25519PublicKey.from_public_bytes(base64.b64decode(setting("TELNYX_PUBLIC_KEY"), validate=True))
        except ImportError:
            return "the Python package cryptography is not installed"
        except ValueError:
            return "CALLERID_TELNYX_PUBLIC_KEY is not a key"
    number = full_number(caller)
    if not number:
        return "not a number with a country code"
    try:
        return f"OK, {search_in_time(number, f'check {time.time()}').get('credits_remaining')} credits left"
    except NoAnswer as error:
        return str(error)


if __name__ == "__main__":
    if sys.argv[1:2] != ["--check"]:
        sys.exit("usage: call_webhooks.py --check [NUMBER], or as a WSGI application call_webhooks:application")
    said = check((sys.argv[2:] or ["+12025550143"])[0])
    sys.stdout.write(f"{said}\n")
    sys.exit(not said.startswith("OK"))
