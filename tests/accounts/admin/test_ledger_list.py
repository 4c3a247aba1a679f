"""The ledger's list: what its filters and its search text select, and by which index."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from accounts import credits, tokens
from accounts.models import ApiToken, CreditEntry
from tests import awaited
from tests.accounts.admin.pages import (
    LEDGER,
    NUMBER,
    entry_at,
    listed_entries,
    query_count,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def search(token: ApiToken) -> CreditEntry:
    awaited.charge(token=token, request_id="req-1", number=NUMBER, answer={})
    return token.entries.get(kind="search")


def test_request_id_matches_exactly(admin_client: Client, search: CreditEntry) -> None:
    awaited.charge(token=search.token, request_id="req-12", number=NUMBER, answer={})
    assert listed_entries(admin_client, q="req-1") == ["pbx search -1"]
    assert listed_entries(admin_client, q=" req-12 ") == ["pbx search -1"]
    assert listed_entries(admin_client, q="eq-1") == []
    assert "No matching ledger entries." in admin_client.get(LEDGER, {"q": "eq-1"}).text


def test_entries_are_found_by_token_name_and_id(admin_client: Client, token: ApiToken) -> None:
    other = tokens.issue(name="Switchboard", initial_credits=1, actor="test").token
    for text in ("switch", f"#{other.pk}", str(other.pk)):
        assert listed_entries(admin_client, q=text) == ["Switchboard issue 1"], text
    assert listed_entries(admin_client, token__id__exact=other.pk) == ["Switchboard issue 1"]
    assert "Only entries of" in admin_client.get(LEDGER, {"token__id__exact": other.pk}).text
    assert listed_entries(admin_client, q="#999999") == []


def test_text_that_matches_several_tokens_offers_them(admin_client: Client) -> None:
    for name in ("branch north", "branch south"):
        tokens.issue(name=name, initial_credits=7, actor="test")
    response = admin_client.get(LEDGER, {"q": "branch", "kind__exact": "issue"})
    assert listed_entries(admin_client, q="branch") == []
    assert "2 tokens match" in response.text
    chosen = re.findall(r'href="(\?[^"]*token__id__exact=\d+)"', response.text)
    rows = [admin_client.get(LEDGER + address.replace("&amp;", "&")).context["cl"].result_list for address in chosen]
    assert [[(row.token.name, row.kind) for row in page] for page in rows] == [
        [("branch north", "issue")],
        [("branch south", "issue")],
    ]


def test_names_match_only_the_newest_tokens_but_id_finds_any(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    oldest, *_ = [tokens.issue(name=name, initial_credits=1, actor="test").token for name in ("shop a", "b", "shop c")]
    sentence = "Names are searched among the newest 2 tokens; #id finds any token."
    assert sentence not in admin_client.get(LEDGER, {"q": "shop"}).text
    monkeypatch.setattr("accounts.admin.base.MAX_SCANNED", 2)
    assert listed_entries(admin_client, q="shop") == ["shop c issue 1"]
    assert listed_entries(admin_client, q="shop a") == []
    for text in ("shop a", "#shop"):
        assert sentence in admin_client.get(LEDGER, {"q": text}).text
    assert (
        listed_entries(admin_client, q=str(oldest.pk))
        == listed_entries(admin_client, q=f"#{oldest.pk}")
        == ["shop a issue 1"]
    )
    for parameters in ({}, {"q": f"#{oldest.pk}"}, {"token__id__exact": oldest.pk}):
        assert sentence not in admin_client.get(LEDGER, parameters).text


def found(client: Client, text: str, **parameters: Any) -> list[str]:
    """The listed entries, and as `?name` the tokens that are offered."""
    response = client.get(LEDGER, {"q": text, **parameters})
    offered = [f"?{token.name}" for token in response.context["cl"].selection.candidates]
    return [f"{row.token.name} {row.kind}" for row in response.context["cl"].result_list] + offered


def test_request_id_hides_no_entry_with_that_reference(admin_client: Client, token: ApiToken) -> None:
    other = tokens.issue(name="other", initial_credits=5, actor="test").token
    credits.top_up(token=token, amount=7, actor="op", reason="paid", reference="INV-17")
    awaited.charge(token=other, request_id="INV-17", number=NUMBER, answer={})
    assert found(admin_client, "INV-17") == ["pbx top-up", "other search"]  # the top-up first, though it is older
    exported: Any = admin_client.post(f"{LEDGER}export/?q=INV-17")
    assert exported.getvalue().decode().count("\r\n") == 3
    assert found(admin_client, "INV-17", kind__exact="booked") == ["pbx top-up"]
    assert found(admin_client, "INV-17", token__id__exact=other.pk) == ["other search"]


def test_request_id_hides_no_token_of_that_name(admin_client: Client, token: ApiToken) -> None:
    other = tokens.issue(name="other", initial_credits=5, actor="test").token
    assert found(admin_client, "pbx") == ["pbx issue"]
    awaited.charge(token=other, request_id="pbx", number=NUMBER, answer={})
    assert found(admin_client, "pbx") == ["other search", "?pbx"]
    text = admin_client.get(LEDGER, {"q": "pbx"}).text
    assert "1 token matches &ldquo;pbx&rdquo; too:" in text
    assert f"?token__id__exact={token.pk}" in text


def test_many_searches_hide_no_search_of_another_token(
    admin_client: Client, search: CreditEntry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("accounts.admin.ledger_queries.MAX_MATCHES", 2)
    other = tokens.issue(name="other", initial_credits=5, actor="test").token
    for _ in range(4):
        awaited.charge(token=other, request_id="req-1", number=NUMBER, answer={})
    assert found(admin_client, "req-1", token__id__exact=search.token_id) == ["pbx search"]


def test_many_searches_hide_no_search_of_another_day(
    admin_client: Client, token: ApiToken, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of earlier and later days, in whichever order they were written."""
    monkeypatch.setattr("accounts.admin.ledger_queries.MAX_MATCHES", 2)
    other = tokens.issue(name="other", initial_credits=5, actor="test").token
    day = datetime(2026, 2, 1, tzinfo=UTC)
    for n in (1, 2, 3, 0, -1, -2, -3):
        entry_at(other if n else token, day + timedelta(days=n), request_id="same")
        topped_up = token if n == 0 else tokens.issue(name=f"other {n}", initial_credits=5, actor="test").token
        entry_at(topped_up, day + timedelta(days=n), kind="top-up", request_id="", reference="same")
    assert found(admin_client, "same", since="2026-02-01", until="2026-02-01") == ["pbx top-up", "pbx search"]


def test_truncated_matches_are_the_newest_first(
    admin_client: Client, token: ApiToken, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("accounts.admin.ledger_queries.MAX_MATCHES", 2)
    day = datetime(2026, 2, 1, tzinfo=UTC)
    for n in (2, 0, 3, 1):
        entry_at(token, day + timedelta(days=n), request_id="same", balance_after=n)
        other = tokens.issue(name=f"other {n}", initial_credits=5, actor="test").token
        entry_at(other, day + timedelta(days=n), kind="top-up", request_id="", reference="same", balance_after=n)
    rows = admin_client.get(LEDGER, {"q": "same"}).context["cl"].result_list
    assert [(row.kind, row.balance_after) for row in rows] == [
        ("top-up", 3),
        ("top-up", 2),
        ("search", 3),
        ("search", 2),
    ]


def test_every_text_takes_the_same_number_of_queries(admin_client: Client, search: CreditEntry) -> None:
    credits.top_up(token=search.token, amount=7, actor="op", reason="paid", reference="INV-17")
    awaited.charge(token=search.token, request_id="INV-17", number=NUMBER, answer={})

    def queries(text: str) -> int:
        with CaptureQueriesContext(connection) as captured:
            assert len(admin_client.get(LEDGER, {"q": text}).context["cl"].result_list) >= 1
        return len(captured)

    assert queries("req-1") == queries("INV-17") == queries("pbx")


def test_reference_finds_its_entry(admin_client: Client, token: ApiToken) -> None:
    credits.top_up(token=token, amount=7, actor="op", reason="paid", reference="INV-17")
    assert listed_entries(admin_client, q="INV-17") == ["pbx top-up 7"]


def test_list_is_filtered_by_kind_and_days(admin_client: Client, search: CreditEntry) -> None:
    token = search.token
    entry_at(token, datetime(2026, 1, 31, 23, 59, 59, 999_999, tzinfo=UTC))
    entry_at(token, datetime(2026, 2, 1, tzinfo=UTC), kind="top-up", amount=5, reason="paid")
    assert listed_entries(admin_client, kind__exact="search") == ["pbx search -1", "pbx search -1"]
    assert listed_entries(admin_client, kind__exact="booked") == ["pbx issue 30", "pbx top-up 5"]
    assert listed_entries(admin_client, kind__exact="top-up") == ["pbx top-up 5"]
    assert listed_entries(admin_client, since="2026-01-31", until="2026-01-31") == ["pbx search -1"]
    assert listed_entries(admin_client, since="2026-02-01", until="2026-02-01") == ["pbx top-up 5"]
    assert listed_entries(admin_client, until="2026-02-01", kind__exact="search") == ["pbx search -1"]
    assert listed_entries(admin_client, since="0001-01-01", until="9999-12-31", q="req-1", kind__exact="booked") == []


def test_newest_comes_first_also_within_one_moment(admin_client: Client, token: ApiToken) -> None:
    moment = timezone.now() - timedelta(days=1)
    earlier, later = (entry_at(token, moment, request_id=name) for name in ("a", "b"))
    rows = [row.pk for row in admin_client.get(LEDGER).context["cl"].result_list]
    assert rows == [token.entries.get(kind="issue").pk, later.pk, earlier.pk]


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"since": "31.01.2026"}, "Enter a date as YYYY-MM-DD."),
        ({"until": "2026-02-30"}, "Enter a date as YYYY-MM-DD."),
        ({"since": "2026-02-01", "until": "2026-01-31"}, "The end date is before the start date."),
        ({"kind__exact": "gift"}, "Select a kind from the list."),
        ({"token__id__exact": "x"}, "This token does not exist."),
        ({"token__id__exact": str(10**30)}, "This token does not exist."),
        ({"q": "a\0b"}, "Null characters are not allowed"),
    ],
)
def test_invalid_filters_show_an_error_and_no_entries(
    admin_client: Client, token: ApiToken, parameters: dict[str, str], sentence: str
) -> None:
    response = admin_client.get(LEDGER, parameters)
    assert response.status_code == 200
    assert sentence in response.text
    assert "Correct the errors above to see entries." in response.text
    assert listed_entries(admin_client, **parameters) == []


def test_url_takes_no_other_filters(admin_client: Client, token: ApiToken) -> None:
    for name in ("actor", "reason__icontains", "token__name__contains", "amount__gt", "created_at__gte"):
        assert admin_client.get(LEDGER, {name: "1"}).status_code == 400, name
    assert listed_entries(admin_client, o="4") == listed_entries(admin_client)


def test_list_has_a_constant_number_of_queries(admin_client: Client, search: CreditEntry) -> None:
    def queries() -> int:
        return query_count(admin_client, LEDGER)

    few = queries()
    for n in range(8):
        token = tokens.issue(name=f"token {n}", initial_credits=5, actor="test").token
        awaited.charge(token=token, request_id=f"r{n}", number=NUMBER, answer={})
        credits.refund(entry=token.entries.get(kind="search"), actor="op", reason="wrong")
    assert queries() == few


def test_list_is_capped_and_says_so(admin_client: Client, search: CreditEntry, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "Only the first" not in admin_client.get(LEDGER).text
    monkeypatch.setattr("core.admin.MAX_LISTED", 1)
    response = admin_client.get(LEDGER)
    assert "Only the first 1 are listed." in response.text
    assert response.context["cl"].result_count == 1


def test_truncated_matches_are_reported(
    admin_client: Client, search: CreditEntry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("accounts.admin.ledger_queries.MAX_MATCHES", 1)
    assert "More entries match." not in admin_client.get(LEDGER, {"q": "req-1"}).text
    awaited.charge(token=search.token, request_id="req-1", number=NUMBER, answer={})
    response = admin_client.get(LEDGER, {"q": "req-1"})
    assert "More entries match." in response.text
    assert "from its page and search there" in response.text
    assert [row.balance_after for row in response.context["cl"].result_list] == [28]


def explain(sql: str) -> str:
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN {'QUERY PLAN ' if connection.vendor == 'sqlite' else ''}{sql}")
        return "\n".join(" ".join(map(str, row)) for row in cursor.fetchall())


def test_no_statement_scans_or_sorts_the_whole_ledger(
    admin_client: Client, token: ApiToken, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("core.admin.MAX_LISTED", 100)
    few = tokens.issue(name="few", initial_credits=5, actor="test").token
    other = tokens.issue(name="other", initial_credits=5, actor="test").token
    start = timezone.now() - timedelta(days=200)
    CreditEntry.objects.bulk_create(
        CreditEntry(
            token=token if n < 6_000 else other,
            amount=-1,
            balance_after=1,
            kind="top-up" if n % 50 == 0 else "search",
            request_id="" if n % 50 == 0 else "same" if n % 3 == 0 else f"{n:x}",
            reference=f"{n:x}" if n % 50 == 0 else "",
            created_at=start + timedelta(minutes=n * 14),
        )
        for n in range(20_000)
    )
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    days = {"since": f"{start + timedelta(days=50):%Y-%m-%d}", "until": f"{start + timedelta(days=60):%Y-%m-%d}"}
    asked = [
        {"token__id__exact": whose, "kind__exact": kind, "q": text, **when}
        for whose in ("", token.pk, other.pk, few.pk)
        for kind in ("", "search", "booked", "top-up")
        for text in ("", "1f4b", "same", f"{50 * 70:x}")  # none, a request id, that of very many, a reference
        for when in ({}, days)
    ]
    for parameters in asked:
        with CaptureQueriesContext(connection) as ran:
            assert admin_client.get(LEDGER, parameters).status_code == 200
        statements = [query["sql"] for query in ran.captured_queries if 'FROM "accounts_creditentry"' in query["sql"]]
        assert len(statements) >= 2
        for sql in statements:
            plan = explain(sql)
            assert not re.search(r"Seq Scan on accounts_creditentry|SCAN accounts_creditentry(?! USING)", plan), sql
            # These may be sorted: entries of a rare request id, or of one token's; operators' entries; entries of a
            # token with few searches.
            whose = parameters["token__id__exact"]
            rare = '("accounts_creditentry"."request_id", ' in sql and (whose or parameters["q"] != "same")
            if " IN (" not in sql and "NOT (" not in sql and whose != few.pk and not rare:
                assert not re.search(r"^ *(-> *)?Sort +\(|USE TEMP B-TREE FOR ORDER BY", plan, re.MULTILINE), (
                    sql,
                    plan,
                )
            # The other tokens have so many operators' entries that PostgreSQL rightly reads all of them.
            if 'NOT ("accounts_creditentry"."kind"' in sql and whose == few.pk and not parameters["q"]:
                assert "creditentry_token_booked" in plan, (sql, plan)


def test_entry_of_no_credits_has_no_sign(admin_client: Client) -> None:
    tokens.issue(name="empty", actor="op")
    assert re.search(r"field-signed_amount[^>]*>(<[^>]*>|\s)*0\s*<", admin_client.get(LEDGER).text)
