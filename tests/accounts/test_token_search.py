"""A token is found by its last four characters, its hint, or its beginning; a whole token is never searched for."""

from datetime import timedelta
from urllib.parse import urlencode

import pytest
from django.test import Client
from pytest_django import DjangoAssertNumQueries

from accounts import tokens
from tests.accounts.admin.pages import LEDGER, LIST, issue_token

pytestmark = pytest.mark.django_db


@pytest.fixture
def issued() -> tokens.Issued:
    """One of two tokens."""
    issue_token("other")
    return tokens.issue(name="pbx", initial_credits=5, actor="test")


def test_hint_is_the_beginning_and_the_end_of_the_jwt(issued: tokens.Issued) -> None:
    assert issued.token.hint == f"{issued.api_key[:8]}…{issued.api_key[-4:]}"
    rotated = tokens.rotate(token=issued.token)
    assert rotated.token.hint == f"{rotated.api_key[:8]}…{rotated.api_key[-4:]}"


def test_token_is_found_by_what_is_known_of_it(
    issued: tokens.Issued, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    header, payload, _ = issued.api_key.split(".")
    for text in (
        issued.api_key[-4:],
        f" {issued.token.hint} ",
        issued.token.hint.replace("…", "..."),
        f"…{issued.api_key[-4:]}",
        f"{header}.{payload}",
        f"{header}.{payload}.",
        f"{header}.{payload[:-1]}",
    ):
        with django_assert_num_queries(1):
            assert tokens.find(text) == [issued.token]


@pytest.mark.parametrize("text", ["", "pbx", "eyJhbGci", "eyJhbGciOiJIUzI1NiJ9.e30", "eyJ.a", "é…abcd", "x" * 5000])
def test_other_texts_find_no_token(issued: tokens.Issued, text: str) -> None:
    assert tokens.find(text) == []


def test_beginning_of_the_previous_jwt_finds_the_token(issued: tokens.Issued) -> None:
    tokens.rotate(token=issued.token, grace=timedelta(hours=1))
    assert tokens.find(issued.api_key.rpartition(".")[0]) == [issued.token]
    assert tokens.find(issued.api_key[-4:]) == []


def test_whole_token_is_not_searched_for(issued: tokens.Issued) -> None:
    for text in (issued.api_key, f"Bearer {issued.api_key}", issued.api_key[:-40]):
        with pytest.raises(tokens.WholeToken):
            tokens.find(text)


@pytest.mark.parametrize(
    "url",
    [LIST, *(f"/admin/{name}/" for name in ("accounts/customer", "auth/user", "auth/group", "admin/logentry"))],
)
def test_list_does_not_repeat_a_whole_token(
    admin_client: Client, issued: tokens.Issued, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    response = admin_client.get(url, {"q": issued.api_key, "p": "1"})
    assert response.status_code == 302
    assert response["Location"] == url
    page = admin_client.get(url)
    assert "Enter only its last four characters." in page.text
    assert issued.api_key not in page.text + caplog.text + str(admin_client.cookies)


def test_export_does_not_search_for_a_whole_token(admin_client: Client, issued: tokens.Issued) -> None:
    text = issued.api_key[:-40]  # with a part of the signature, and short enough for the field
    response = admin_client.post(f"{LEDGER}export/?{urlencode({'token': text})}", follow=True)
    assert response.redirect_chain[-1] == (LEDGER, 302)
    assert "Enter only its last four characters." in response.text


def test_lists_are_searched_by_hint(admin_client: Client, issued: tokens.Issued) -> None:
    for text in (issued.api_key[-4:], issued.token.hint, issued.api_key.rpartition(".")[0]):
        shown = admin_client.get(LIST, {"q": text})
        assert list(shown.context["cl"].result_list) == [issued.token]
        assert issued.token.hint in shown.text
        entries = admin_client.get(LEDGER, {"token": text}).context["cl"].result_list
        assert [entry.token for entry in entries] == [issued.token]


def test_hint_finds_tokens_beyond_the_scan_limit(
    admin_client: Client, issued: tokens.Issued, monkeypatch: pytest.MonkeyPatch
) -> None:
    issue_token("newest")
    monkeypatch.setattr("accounts.admin.search_text.MAX_SCANNED", 1)
    shown = admin_client.get(LIST, {"q": issued.api_key[-4:]})
    assert list(shown.context["cl"].result_list) == [issued.token]
