"""What a server does with a client's requests, and what an example or a client does then, as docs/clients.md says."""

import time
from dataclasses import dataclass, field

from tests import upstream
from tests.upstream import Behaviour, Conversation

NUMBER = "12125550142"
DATA = {
    "phone_number": NUMBER,
    "source_a": {"name": "Example Bakery", "location": "New York"},
    "source_b": {"spam": False},
    "combined": {"source_a_available": True, "source_b_available": True},
}
PRINTED = "Name:  Example Bakery\nPlace: New York\nSpam:  no\n"
OK = upstream.says({"success": True, "data": DATA, "credits_remaining": 9})
NOTHING = upstream.says({"success": True, "data": {**DATA, "source_a": {}, "source_b": {}}, "credits_remaining": 9})


def error(status: int, detail: str, retry_after: str = "") -> Behaviour:
    headers = "Content-Type: application/json\r\n" + (f"Retry-After: {retry_after}\r\n" if retry_after else "")
    return upstream.says({"detail": detail}, status, headers)


@dataclass
class Case:
    """What the server does with each request (the last one repeats), and what a program does then."""

    script: list[Behaviour]
    exit_code: int
    requests: int
    says: str
    waits_s: float = 0
    url_ends: str = ""


def proxy_page(status: int) -> Behaviour:
    return upstream.raw(b"<html>Not the service</html>", status, "Content-Type: text/html\r\n")


@dataclass
class Script:
    """Follows a case's script, and notes when each request came."""

    behaviours: list[Behaviour]
    times: list[float] = field(default_factory=list)

    def __call__(self, conversation: Conversation) -> bool:
        self.times.append(time.monotonic())
        return self.behaviours[min(len(self.times), len(self.behaviours)) - 1](conversation)


DATE = "Mon, 23 Nov 2026 05:00:00 GMT"
#: Retries share a program's three attempts where they can: each start of seven programs takes CPU time.
CASES = {
    "200": Case([OK], 0, 1, PRINTED, url_ends="/"),
    "200 without results": Case([NOTHING], 0, 1, "Name:  unknown\nPlace: unknown\nSpam:  unknown\n"),
    "400": Case([error(400, "Invalid phone number (must be a string)")], 1, 1, "400 Invalid phone number (must be"),
    "401": Case([error(401, "Invalid or missing token")], 3, 1, "401 Invalid or missing token"),
    "403": Case([error(403, "No credits remaining")], 4, 1, "403 No credits remaining"),
    # Whoever answers with a redirect would get the token.
    "a redirect": Case([upstream.raw(b"", 307, "Location: /elsewhere\r\n")], 1, 1, "307"),
    "429, 503, 200": Case([error(429, "x", "1"), error(503, "x", "1"), OK], 0, 3, PRINTED, waits_s=2),
    "429 for longer": Case([error(429, "Rate limit exceeded", "60")], 5, 1, "429 Rate limit exceeded"),
    # Anything but one to nine digits counts as one second.
    "503 until a date, 429 for ages, 200": Case(
        [error(503, "x", DATE), error(429, "x", "99999999999"), OK], 0, 3, PRINTED, waits_s=2
    ),
    "429 for -5, 503 for longer": Case(
        [error(429, "x", "-5"), error(503, "Service overloaded", "08")], 7, 2, "503 Service overloaded", waits_s=1
    ),
    "500, no response, 200": Case([error(500, "Internal server error"), upstream.hangs, OK], 0, 3, PRINTED),
    "broken connections, 200": Case([upstream.resets, upstream.stops_short, OK], 0, 3, PRINTED),
    "a proxy's pages": Case([proxy_page(502), proxy_page(200), proxy_page(502)], 6, 3, "502"),
    "no response": Case([upstream.hangs], 8, 2, "No response"),
}
