#!/usr/bin/env python3
"""An AGI script for Asterisk: the caller's name in CALLERID(name), and CALLERID_SPAM=yes for a spam caller.

It needs Python 3.9 or newer and nothing else. docs/telephone-systems.md describes the installation.

Settings come from Asterisk's environment: CALLERID_TOKEN, CALLERID_URL and those in that page.

    callerid.py --check [NUMBER]      says what is wrong with address, token or credits, without a call
"""

import hashlib
import http.client
import json
import os
import re
import socket
import sys
import threading
import time
from typing import Any
from urllib.parse import urlsplit

#: For the whole search, name resolution included.
TIMEOUT_S = 1.5
MAX_ANSWER_BYTES = 8192
MAX_NAME_BYTES = 64
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


def setting(name: str, default: str = "") -> str:
    return os.environ.get(f"CALLERID_{name}", default)


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
    """A name that fits between quotes: one line, at most 64 bytes, nothing invisible or with a meaning in SIP."""
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
    # The same for each try of one call, so that none is charged twice.
    key = hashlib.sha256(f"{socket.gethostname()} {call} {number}".encode()).hexdigest()
    headers = {"Content-Type": "application/json", "Idempotency-Key": f"asterisk-{key}"}
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


def command(text: str) -> None:
    """Send a command to Asterisk, and wait for its reply."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
    sys.stdin.readline()


def main() -> None:
    call = {}
    for line in iter(sys.stdin.readline, ""):
        name, separator, value = line.strip().partition(":")
        if not separator:
            break
        call[name] = value.strip()
    # Bits 5 and 6: 0 if the caller does not withhold the number.
    presentation = call.get("agi_callingpres", "0")
    number = full_number(call.get("agi_callerid", ""))
    if not number or not re.fullmatch("[0-9]{1,9}", presentation) or int(presentation) & 0x60:
        return
    try:
        data = search_in_time(number, call.get("agi_uniqueid", ""))["data"]
    except NoAnswer as error:
        command(f'VERBOSE "caller identification: no name, {error}" 1')
        return
    a, b = (source if isinstance(source, dict) else {} for source in (data.get("source_a"), data.get("source_b")))
    name = clean_name(a.get("name")) or clean_name(b.get("name"))
    if b.get("spam") is True:
        name = setting("SPAM_MARK", "Spam: ") + (name or f"+{number}")
        command("SET VARIABLE CALLERID_SPAM yes")
    if name:
        command(f'SET VARIABLE CALLERID(name) "{name}"')


def check(caller: str) -> str:
    """A search that costs a credit: what to print."""
    number = full_number(caller)
    if not number:
        return "not a number with a country code"
    try:
        return f"OK, {search_in_time(number, f'check {time.time()}').get('credits_remaining')} credits left"
    except NoAnswer as error:
        return str(error)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--check"]:
        said = check((sys.argv[2:] or ["+12025550143"])[0])
        sys.stdout.write(f"{said}\n")
        sys.exit(not said.startswith("OK"))
    sys.stdin.reconfigure(encoding="utf-8", errors="replace")  # type: ignore[union-attr]
    sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
    main()
