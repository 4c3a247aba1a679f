"""Client credentials: a server gives tokens, the vendor accepts the newest one only."""

import asyncio
import base64
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs

import pytest

from core import loop
from lookup.answers import Answer, Failed, Found
from lookup.vendors import oauth2
from lookup.vendors.json_api import JsonApi
from tests.lookup.vendors.conftest import AUTH, Make
from tests.mock_vendors import Vendors
from tests.upstream import Conversation, Upstream, raw, says

NUMBER = "12025550123"
OAUTH2 = 'oauth2 = { url = "https://login.example.com/token", id = "MOCK_A_ID", secret = "MOCK_A_SECRET" }'
KEYS = {"MOCK_A_ID": "id 1", "MOCK_A_SECRET": "s:1"}
GOOD = {"name": "Example Bakery", "city": "Springfield", "state": "IL"}
Behaviour = Callable[[Conversation], bool]


@pytest.fixture
def tokens() -> Iterator[Upstream]:
    """Gives the tokens t1, t2 and so on, for an hour each."""
    server = Upstream(numbered()).start()
    yield server
    server.stop()


def numbered(**members: Any) -> Behaviour:
    numbers = itertools.count(1)

    def behave(conversation: Conversation) -> bool:
        document = {"access_token": f"t{next(numbers)}", "token_type": "Bearer", "expires_in": 3600, **members}
        return says(document)(conversation)

    return behave


def accepting(token: str) -> Behaviour:
    """A vendor that answers requests with this token, and others with 401."""

    def behave(conversation: Conversation) -> bool:
        is_valid = f"authorization: bearer {token}\r\n".encode() in conversation.head.lower() + b"\r\n"
        return says(GOOD)(conversation) if is_valid else says({"message": "expired"}, 401)(conversation)

    return behave


@contextmanager
def vendor(make: Make, vendors: Vendors, tokens: Upstream, oauth: str = OAUTH2) -> Iterator[JsonApi]:
    urls = {"MOCK_A_BASE_URL": vendors.a.url, "MOCK_A_TOKEN_URL": f"{tokens.url}/token"}
    made = make((AUTH, oauth), **KEYS, **urls)
    yield made
    loop.run(made.close())


def ask(connector: JsonApi, times: int = 1) -> list[Answer]:
    """At the same time."""

    async def all_at_once() -> list[Answer]:
        return await asyncio.gather(*(connector.lookup(NUMBER, timeout_s=5) for _ in range(times)))

    return loop.run(all_at_once())


def test_one_token_serves_all_calls(make: Make, vendors: Vendors, tokens: Upstream) -> None:
    vendors.a.behave_as(accepting("t1"))
    with vendor(make, vendors, tokens) as connector:
        assert {type(answer) for _ in range(2) for answer in ask(connector, 5)} == {Found}
    assert len(tokens.heads) == 1
    assert tokens.heads[0].startswith(b"POST /token HTTP/1.1")
    # Encoded before they are joined with a colon (RFC 6749, section 2.3.1).
    assert f"Authorization: Basic {base64.b64encode(b'id%201:s%3A1').decode()}".encode() in tokens.heads[0]
    assert parse_qs(tokens.bodies[0].decode()) == {"grant_type": ["client_credentials"]}


def test_credentials_in_the_form_and_parameters(make: Make, vendors: Vendors, tokens: Upstream) -> None:
    form = OAUTH2.replace(" }", ', in_form = true, params = { scope = "cnam", audience = "x" } }')
    with vendor(make, vendors, tokens, form) as connector:
        ask(connector)
    sent = {name: value for name, (value,) in parse_qs(tokens.bodies[0].decode()).items()}
    credentials = {"client_id": "id 1", "client_secret": "s:1", "scope": "cnam", "audience": "x"}
    assert sent == {"grant_type": "client_credentials", **credentials}
    assert b"Authorization" not in tokens.heads[0]


def test_rejected_token_is_replaced_once(make: Make, vendors: Vendors, tokens: Upstream) -> None:
    vendors.a.behave_as(accepting("t1"))
    with vendor(make, vendors, tokens) as connector:
        ask(connector)
        vendors.a.behave_as(accepting("t2"))
        assert [type(answer) for answer in ask(connector, 4)] == [Found] * 4
        assert len(tokens.heads) == 2
        vendors.a.behave_as(accepting("none"))
        (failed,) = ask(connector)
    assert isinstance(failed, Failed)
    assert (failed.reason, failed.hint) == ("auth", "401: MOCK_A_ID or MOCK_A_SECRET is rejected")
    assert len(tokens.heads) == 3


def test_token_is_renewed_before_it_expires(make: Make, vendors: Vendors, tokens: Upstream, monkeypatch: Any) -> None:
    now = [1000.0]
    monkeypatch.setattr("lookup.vendors.oauth2.time.monotonic", lambda: now[0])
    with vendor(make, vendors, tokens) as connector:
        for at, requests in ((0, 1), (3600 - oauth2.MARGIN_S - 1, 1), (3600 - oauth2.MARGIN_S, 2)):
            now[0] = 1000.0 + at
            ask(connector)
            assert len(tokens.heads) == requests


@pytest.mark.parametrize(
    ("behave", "reason", "hint"),
    [
        (says({"error": "invalid_client"}, 401), "auth", "401 invalid_client: MOCK_A_ID or MOCK_A_SECRET is rejected"),
        (says({"error": {"code": 7}}, 400), "auth", "400: MOCK_A_ID or MOCK_A_SECRET is rejected"),
        (says({"error": "s:1 is wrong"}, 400), "auth", "400: MOCK_A_ID or MOCK_A_SECRET is rejected"),
        (raw(b"<html>", 503), "unavailable", "its token server answers 503"),
        (raw(b"<html>"), "bad_response", "its token server answers 200 without a bearer token"),
        (raw(b'{"a":' * 10_000), "bad_response", "its token server answers 200 without a bearer token"),
        (numbered(access_token=None), "bad_response", "its token server answers 200 without a bearer token"),
        (numbered(token_type="mac"), "bad_response", "its token server answers 200 without a bearer token"),
        (numbered(access_token="a b\r\nX: y"), "bad_response", "its token server answers 200 without a bearer token"),
        (raw(b"[]", 404), "bad_response", "its token server answers 404 without a bearer token"),
    ],
)
def test_without_a_token_the_vendor_is_not_called(
    make: Make, vendors: Vendors, tokens: Upstream, behave: Behaviour, reason: str, hint: str
) -> None:
    tokens.behave_as(behave)
    with vendor(make, vendors, tokens) as connector:
        (failed,) = ask(connector)
    assert isinstance(failed, Failed)
    assert failed.reason == reason
    assert failed.hint.endswith(hint)
    assert not vendors.a.heads
    assert "s:1" not in failed.hint


ODD_LIFETIMES: list[Any] = [
    *(None, "", "soon", [], {}, True, False, "1_0", "١٢", "1e3", "nan", "9" * 5_000),
    *(0, -1, "-5", 0.001, 1e300, 10**400, float("inf"), -float("inf"), float("nan")),
]


@pytest.mark.parametrize(
    ("lifetime", "seconds"),
    [
        *((good, 3600) for good in (3600, 3600.0, "3600", " 3600 ", "3600.0")),
        *((1, 1), ("1.5", 1.5), (10**9, 10**9)),
        *((odd, oauth2.DEFAULT_LIFETIME_S) for odd in ODD_LIFETIMES),
    ],
)
def test_odd_lifetimes_count_as_missing(
    make: Make, vendors: Vendors, tokens: Upstream, monkeypatch: Any, lifetime: Any, seconds: float
) -> None:
    """Or every call would request a token."""
    now = [1000.0]
    monkeypatch.setattr("lookup.vendors.oauth2.time.monotonic", lambda: now[0])
    tokens.behave_as(numbered(expires_in=lifetime))
    with vendor(make, vendors, tokens) as connector:
        for at, requests in ((0, 1), (seconds / 2 - 0.01, 1), (seconds, 2)):
            now[0] = 1000.0 + at
            assert isinstance(ask(connector)[0], Found)
            assert len(tokens.heads) == requests
