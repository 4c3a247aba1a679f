"""The order of checks: the first one that fails determines the response, and nothing else happens."""

import gzip
import json
from typing import Any

import pytest
from django.test import Client

from core import commits
from tests.api import NUMBER, Integrator
from tests.clock import Clock
from tests.connectors import Knows

INVALID = "Invalid phone number "


def assert_refused(response: Any, status: int, detail: str) -> None:
    assert response.status_code == status, response.content
    assert response.headers["Content-Type"] == "application/json"
    assert response.json() == {"detail": detail}


def assert_nothing_happened(integrator: Integrator) -> None:
    assert integrator.balance() == 10
    assert integrator.debits() == 0
    assert Knows.calls == []


def test_a_search_returns_the_documented_body_and_charges_1(integrator: Integrator) -> None:
    response = integrator.search()
    assert response.status_code == 200
    assert response.json() == {
        "success": True,
        "data": {
            "phone_number": NUMBER,
            "source_a": {"name": "Local Name", "location": "Local Place"},
            "source_b": {"name": "Local Name", "spam": False},
            "combined": {"source_a_available": True, "source_b_available": True},
        },
        "credits_remaining": 9,
    }
    assert integrator.balance() == 9
    assert integrator.debits() == 1


@pytest.mark.parametrize("path", ["/callerid/search", "/callerid/search/"])
def test_a_trailing_slash_is_neither_needed_nor_redirected(integrator: Integrator, path: str) -> None:
    body = json.dumps({"api_key": integrator.key, "query": NUMBER})
    assert integrator.client.post(path, body, content_type="application/json").status_code == 200


@pytest.mark.parametrize("path", ["/x", "/callerid", "/callerid/search/x", "/callerid//search", "/no/such/4930231250"])
def test_unknown_paths_are_json_404_and_echo_nothing(client: Client, path: str) -> None:
    assert_refused(client.post(path, "{}", content_type="application/json"), 404, "Not found.")


@pytest.mark.parametrize("method", ["post", "Post", "CANARY"])
def test_methods_are_case_sensitive_and_not_echoed(integrator: Integrator, method: str) -> None:
    body = json.dumps({"api_key": integrator.key, "query": NUMBER})
    response = integrator.client.generic(method, "/callerid/search", body, content_type="application/json")
    assert_refused(response, 405, "Method not allowed.")
    assert_nothing_happened(integrator)


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"])
def test_other_methods_are_405_before_anything_else(integrator: Integrator, method: str) -> None:
    response = integrator.client.generic(method, "/callerid/search", b"not json", content_type="text/plain")
    assert_refused(response, 405, f'Method "{method}" not allowed.')
    assert response.headers["Allow"] == "POST"


def test_head_is_405(integrator: Integrator) -> None:
    assert integrator.client.head("/callerid/search").status_code == 405


@pytest.mark.parametrize(
    ("content_type", "quoted"),
    [
        ("text/plain", "text/plain"),
        ("application/x-www-form-urlencoded", "application/x-www-form-urlencoded"),
        ("multipart/form-data; boundary=x", "multipart/form-data"),
        ("", ""),
        ("*/*", ""),
        ("application/*", ""),
        ("application/jsonp", ""),
        ("text/canary", ""),
    ],
)
@pytest.mark.parametrize("body", [b"", b"not json"])
def test_another_content_type_is_415(integrator: Integrator, content_type: str, quoted: str, body: bytes) -> None:
    response = integrator.post(body, content_type)
    sentence = f'Unsupported media type "{quoted}" in request.' if quoted else "Unsupported media type."
    assert_refused(response, 415, sentence)
    assert_nothing_happened(integrator)


@pytest.mark.parametrize("encoding", ["gzip", "br", "identity"])
def test_a_content_encoding_is_415(integrator: Integrator, encoding: str) -> None:
    body = json.dumps({"api_key": integrator.key, "query": NUMBER}).encode()
    response = integrator.post(gzip.compress(body) if encoding == "gzip" else body, Content_Encoding=encoding)
    assert_refused(response, 415, "Unsupported media type.")
    assert_nothing_happened(integrator)


@pytest.mark.parametrize(
    "content_type",
    [
        "application/json; charset=utf-8",
        "APPLICATION/JSON",
        'application/json;charset="UTF-8"; x=1',
        "application/json;",
    ],
)
def test_parameters_of_the_content_type_are_allowed(integrator: Integrator, content_type: str) -> None:
    assert integrator.post(json.dumps({"api_key": integrator.key, "query": NUMBER}), content_type).status_code == 200


def test_the_body_may_have_16_kib_and_not_a_byte_more(integrator: Integrator) -> None:
    members = {"api_key": integrator.key, "query": NUMBER, "padding": ""}
    members["padding"] = "x" * (16 * 1024 - len(json.dumps(members)))
    fits = json.dumps(members)
    assert len(fits) == 16 * 1024
    assert integrator.post(fits).status_code == 200
    assert_refused(integrator.post(fits + " "), 413, "Request body too large")
    assert integrator.balance() == 9


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b" ", b"{", b"nul", b"{'api_key': 1}", b"{} {}", b"[" * 8_000),
        *(b'{"api_key": "x", "api_key": "y"}', b'{"a": {"b": 1, "b": 2}}'),
        *(b'{"query": NaN}', b'{"query": Infinity}', b'{"query": "\xe9"}', b'{"query": "a\nb"}'),
        *(b"\xff\xfe{\x00}\x00", "{}".encode("utf-16"), b"\xef\xbb\xbf{}"),
    ],
)
def test_a_body_that_is_not_one_json_text_is_malformed(integrator: Integrator, body: bytes) -> None:
    assert_refused(integrator.post(body), 400, "Malformed JSON body")
    assert_nothing_happened(integrator)


@pytest.mark.parametrize("charset", ["utf-7", "latin-1", "utf-16", "us-ascii", "rot13", "no-such", "", "x" * 500])
def test_another_charset_is_malformed(integrator: Integrator, charset: str) -> None:
    body = json.dumps({"api_key": integrator.key, "query": NUMBER})
    assert_refused(integrator.post(body, f"application/json; charset={charset}"), 400, "Malformed JSON body")


@pytest.mark.parametrize("body", [b"[]", b'"x"', b"1", b"null", b"true", b"1e999", b"9" * 5_000])
def test_json_that_is_not_an_object_is_refused(integrator: Integrator, body: bytes) -> None:
    assert_refused(integrator.post(body), 400, "JSON body must be an object")


@pytest.mark.parametrize(
    "api_key",
    [
        *(None, "", " ", 12, 1.5, True, [], {}, ["x"]),
        *("x", "a.b.c", "x" * 2_049, "\x00", "\ud800", "ключ", "eyJhbGciOiJub25lIn0.e30."),
    ],
)
def test_an_invalid_token_is_401(integrator: Integrator, api_key: Any) -> None:
    response = integrator.send({"api_key": api_key, "query": "not even a number"})
    assert_refused(response, 401, "Invalid or missing token")
    assert response.headers["WWW-Authenticate"] == 'JWT realm="callerid"'
    assert "RateLimit" not in response.headers
    assert_nothing_happened(integrator)


def test_a_token_in_a_header_or_the_url_is_ignored(integrator: Integrator) -> None:
    response = integrator.client.generic(
        "POST",
        f"/callerid/search?api_key={integrator.key}",
        json.dumps({"query": NUMBER}),
        content_type="application/json",
        headers={"Authorization": f"Bearer {integrator.key}"},
    )
    assert_refused(response, 401, "Invalid or missing token")


def test_forged_token_is_401_also_while_commits_are_suspended(
    integrator: Integrator, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.AUTH_FAILURE_RATE = (1, 60)
    monkeypatch.setattr(commits, "process_commits", suspended := commits.CommitBreaker(Clock()))
    suspended.late(None)
    forged = {"api_key": integrator.key[:-9] + "AAAAAAAAA", "query": NUMBER}
    assert_refused(integrator.send(forged), 401, "Invalid or missing token")
    assert_refused(integrator.send(forged), 429, "Rate limit exceeded")
    assert_refused(integrator.search(), 503, "Service overloaded")
    assert_nothing_happened(integrator)


@pytest.mark.parametrize("padding", ["", " ", "\n"])
def test_a_token_is_not_trimmed(integrator: Integrator, padding: str) -> None:
    response = integrator.send({"api_key": integrator.key + padding, "query": NUMBER})
    assert response.status_code == (401 if padding else 200)


@pytest.mark.parametrize(
    ("why", "queries"),
    [
        ("(must be a string)", [None, 14155552671, 1.5, True, [NUMBER], {"number": NUMBER}]),
        (
            "(must contain only digits)",
            [
                *("", "+4930231250", "49 30231250", "49-30231250", " 4930231250", "4930231250\n", "4930231250\x00"),
                *("٤٩٣٠٢٣١٢٥", "4930231²50", "\ud800"),
            ],
        ),
        ("(must have 7 to 15 digits)", ["493023", "4930231250421234", "9" * 10_000]),
        ("(must start with a country code)", ["04930231250", "0000000"]),
    ],
)
def test_an_invalid_number_is_explained_and_not_echoed(integrator: Integrator, why: str, queries: list[Any]) -> None:
    for query in queries:
        response = integrator.search(query)
        assert_refused(response, 400, INVALID + why)
        assert "RateLimit" in response.headers
    assert_nothing_happened(integrator)


def test_a_missing_query_is_400_but_only_with_a_valid_token(integrator: Integrator) -> None:
    assert_refused(integrator.send({"api_key": integrator.key}), 400, INVALID + "(must be a string)")
    assert_refused(integrator.send({}), 401, "Invalid or missing token")


@pytest.mark.parametrize("number", [b"1e999", b"-0", b"9" * 5_000])
def test_a_json_number_is_not_a_query(integrator: Integrator, number: bytes) -> None:
    response = integrator.post(b'{"api_key": "%s", "query": %s}' % (integrator.key.encode(), number))
    assert_refused(response, 400, INVALID + "(must be a string)")


@pytest.mark.parametrize("query", ["1234567", "123456789012345"])
def test_7_and_15_digits_are_numbers(integrator: Integrator, query: str) -> None:
    assert integrator.search(query).json()["data"]["phone_number"] == query


@pytest.mark.parametrize("key", ["", "a b", "x" * 256, "naïve", "a\tb"])
def test_a_malformed_idempotency_key_is_400_after_the_query(integrator: Integrator, key: str) -> None:
    assert_refused(integrator.search(Idempotency_Key=key), 400, "Invalid Idempotency-Key")
    assert_refused(integrator.search("x", Idempotency_Key=key), 400, INVALID + "(must contain only digits)")
    assert_nothing_happened(integrator)


def test_no_credits_is_403_after_the_query_before_the_sources(db: None, quiet_sources: None) -> None:
    integrator = Integrator(credits=0)
    assert_refused(integrator.search("x"), 400, INVALID + "(must contain only digits)")
    response = integrator.search()
    assert_refused(response, 403, "No credits remaining")
    assert "RateLimit" in response.headers
    assert "Server-Timing" not in response.headers
    assert Knows.calls == []


def test_the_rate_limit_is_checked_before_the_query(integrator: Integrator, settings: Any) -> None:
    settings.RATE_LIMIT = (1, 60)
    integrator.search()
    response = integrator.search("x")
    assert_refused(response, 429, "Rate limit exceeded")
    assert 1 <= int(response.headers["Retry-After"]) <= 60
    assert integrator.debits() == 1


def test_more_members_than_needed_are_ignored(integrator: Integrator) -> None:
    assert integrator.send({"api_key": integrator.key, "query": NUMBER, "more": {"x": [1]}}).status_code == 200


@pytest.mark.parametrize("accept", ["text/html", "application/xml", "*/*", "junk", ""])
def test_answers_are_json_whatever_is_asked_for(integrator: Integrator, accept: str) -> None:
    body = json.dumps({"api_key": integrator.key, "query": NUMBER})
    response = integrator.client.generic(
        "POST", "/callerid/search?format=html", body, content_type="application/json", headers={"Accept": accept}
    )
    assert response.status_code == 200
    assert response.headers["Content-Type"] == "application/json"
