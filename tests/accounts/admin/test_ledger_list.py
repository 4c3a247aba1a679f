"""The ledger's list: what its filters and its search text select, and by which index."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from accounts import credits, tokens
from accounts.admin.ledger_queries import LedgerForm
from accounts.models import ApiToken, CreditEntry, Customer
from core.long_lists import EVER, Page
from tests import awaited
from tests.accounts.admin.pages import (
    LEDGER,
    NUMBER,
    entry_at,
    listed_entries,
    query_count,
)
from tests.console_pages import words

pytestmark = pytest.mark.django_db


def test_request_id_matches_exactly(admin_client: Client, search: CreditEntry) -> None:
    awaited.charge(token=search.token, request_id="req-12", number=NUMBER, answer={})
    assert listed_entries(admin_client, request_id="req-1") == ["pbx search -1"]
    assert listed_entries(admin_client, request_id=" req-12 ") == ["pbx search -1"]
    assert listed_entries(admin_client, request_id="eq-1") == []
    assert "No matching ledger entries." in admin_client.get(LEDGER, {"request_id": "eq-1"}).text


def test_entries_are_found_by_token_name_and_id(admin_client: Client, token: ApiToken) -> None:
    other = tokens.issue(name="Switchboard", initial_credits=1, actor="test").token
    for text in ("switch", f"#{other.pk}", str(other.pk)):
        assert listed_entries(admin_client, token=text) == ["Switchboard issue 1"], text
    assert "Only entries of" in admin_client.get(LEDGER, {"token": f"#{other.pk}"}).text
    assert listed_entries(admin_client, token="#999999") == []


def test_text_that_matches_several_tokens_offers_them(admin_client: Client) -> None:
    for name in ("branch north", "branch south"):
        tokens.issue(name=name, initial_credits=7, actor="test")
    response = admin_client.get(LEDGER, {"token": "branch", "kind": "issue"})
    assert listed_entries(admin_client, token="branch") == []
    assert "2 tokens match" in response.text
    chosen = re.findall(r'href="(\?[^"]*token=%23\d+[^"]*)"', response.text)
    rows = [admin_client.get(LEDGER + address.replace("&amp;", "&")).context["cl"].result_list for address in chosen]
    assert [[(row.token.name, row.kind) for row in page] for page in rows] == [
        [("branch north", "issue")],
        [("branch south", "issue")],
    ]


def test_customers_are_found_by_a_part_of_their_name(admin_client: Client) -> None:
    for name in ("Cedar Clinic", "Cedar Dental", "Maple"):
        customer = Customer.objects.create(name=name)
        tokens.issue(name=f"pbx {name}", initial_credits=7, actor="test", customer=customer)
    response = admin_client.post(LEDGER, {"customer": " cedar ", "kind": "issue"}, follow=True)
    assert list(response.context["cl"].result_list) == []
    assert "2 customers match. Select one:" in response.text
    assert "No matching ledger entries" not in response.text
    chosen = re.findall(r'href="(\?customer=%23\d+&amp;kind=issue)"', response.text)
    rows = [admin_client.get(LEDGER + address.replace("&amp;", "&")).context["cl"].result_list for address in chosen]
    assert [[row.token.name for row in page] for page in rows] == [["pbx Cedar Clinic"], ["pbx Cedar Dental"]]
    one = admin_client.post(LEDGER, {"customer": "maple"})
    assert one["Location"] == f"{LEDGER}?customer={customer.pk}"
    assert listed_entries(admin_client, customer="dental") == ["pbx Cedar Dental issue 7"]
    Customer.objects.create(name="Maple Two")
    assert listed_entries(admin_client, customer="MAPLE") == ["pbx Maple issue 7"]


def test_names_match_only_the_newest_tokens_but_id_finds_any(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    oldest, *_ = [tokens.issue(name=name, initial_credits=1, actor="test").token for name in ("shop a", "b", "shop c")]
    sentence = "Names are searched among the newest 2 tokens; #id finds any token."
    assert sentence not in admin_client.get(LEDGER, {"token": "shop"}).text
    monkeypatch.setattr("accounts.admin.search_text.MAX_SCANNED", 2)
    assert listed_entries(admin_client, token="shop") == ["shop c issue 1"]
    assert listed_entries(admin_client, token="shop a") == []
    for text in ("shop", "shop a", "#shop"):
        assert sentence in admin_client.get(LEDGER, {"token": text}).text
    for text in (str(oldest.pk), f"#{oldest.pk}"):
        assert listed_entries(admin_client, token=text) == ["shop a issue 1"]
    for parameters in ({}, {"token": f"#{oldest.pk}"}):
        assert sentence not in admin_client.get(LEDGER, parameters).text


def test_id_reference_and_token_filters_hide_nothing_of_each(admin_client: Client, token: ApiToken) -> None:
    """Callers choose their request ids."""
    other = tokens.issue(name="other", initial_credits=5, actor="test").token
    credits.top_up(token=token, amount=7, actor="op", reason="paid", reference="pbx")
    awaited.charge(token=other, request_id="pbx", number=NUMBER, answer={})
    assert listed_entries(admin_client, token="pbx") == ["pbx top-up 7", "pbx issue 30"]
    assert listed_entries(admin_client, reference="pbx") == ["pbx top-up 7"]
    assert listed_entries(admin_client, request_id="pbx") == ["other search -1"]
    assert listed_entries(admin_client, request_id="pbx", token="other") == ["other search -1"]
    assert listed_entries(admin_client, request_id="pbx", token="pbx") == []
    assert listed_entries(admin_client, request_id="pbx", kind="booked") == []


def test_list_is_of_the_last_24_hours_unless_a_period_is_given(admin_client: Client, token: ApiToken) -> None:
    for hours in (23, 25, 47, 49):
        entry_at(token, timezone.now() - timedelta(hours=hours), request_id=f"{hours} hours ago")

    def ids(**parameters: str) -> list[str]:
        rows = admin_client.get(LEDGER, {"kind": "search", **parameters}).context["cl"].result_list
        return [row.request_id for row in rows]

    assert ids() == ["23 hours ago"]
    until = f"{timezone.now() - timedelta(hours=24):%Y-%m-%dT%H:%M}"
    assert ids(until=until) == ["25 hours ago", "47 hours ago"]
    text = admin_client.get(LEDGER, {"until": until}).text
    assert f"From {timezone.now() - timedelta(hours=48):%Y-%m-%d %H:%M} to " in text
    assert ids(request_id="49 hours ago") == ["49 hours ago"]
    everything = re.search(r'href="(\?[^"]+)">Search the whole time', admin_client.get(LEDGER, {"kind": "refund"}).text)
    assert everything is not None
    assert everything[1] == "?kind=refund&amp;since=2000-01-01"


@pytest.mark.parametrize("zone", ["", "Pacific/Honolulu", "Pacific/Auckland"])
@pytest.mark.parametrize("until", ["0001-01-01", "0001-01-03", "2000-01-01", "9999-12-31"])
@pytest.mark.parametrize("request_id", ["", "none"])
def test_any_end_has_a_default_start(admin_client: Client, zone: str, until: str, request_id: str) -> None:
    parameters = {"zone": zone, "until": until, "request_id": request_id, "kind": "refund"}
    assert admin_client.get(LEDGER, parameters).status_code == 200


def test_submitted_filters_become_a_url_with_their_period(admin_client: Client, token: ApiToken) -> None:
    response = admin_client.post(LEDGER, {"token": " pbx ", "kind": "issue", "until": "2030-01-01T00:00"})
    assert (response.status_code, response["Location"]) == (
        302,
        f"{LEDGER}?token=pbx&kind=issue&until=2030-01-01T00%3A00",
    )
    assert "Enter a time as" in admin_client.post(LEDGER, {"since": "yesterday"}).text


def test_list_pages_by_position_without_a_count(admin_client: Client, token: ApiToken) -> None:
    for n in range(120):
        entry_at(token, timezone.now() - timedelta(minutes=n), request_id=f"r{n}")
    for parameters in ("token=pbx&", "kind=search&", f"customer={customer_of(token)}&kind=search&"):
        found: list[int] = []
        url: str | None = f"{LEDGER}?{parameters}since=2000-01-01"
        pages = 0
        while url:
            with CaptureQueriesContext(connection) as ran:
                response = admin_client.get(url)
            assert not any("COUNT(" in query["sql"] for query in ran.captured_queries)
            found, pages = found + [row.pk for row in response.context["cl"].result_list], pages + 1
            older = re.search(r'href="(\?[^"]+)" rel="next"', response.text)
            url = LEDGER + older[1].replace("&amp;", "&") if older else None
        expected = token.entries.exclude(kind="issue" if "kind" in parameters else "none")
        assert (found, pages) == (list(expected.order_by("-created_at", "-pk").values_list("pk", flat=True)), 5)


def test_list_of_one_page_says_how_many_it_has(admin_client: Client, token: ApiToken) -> None:
    def pages(**parameters: str) -> str:
        nav = admin_client.get(LEDGER, parameters).text.partition('aria-label="Pages"')[2].partition("</nav>")[0]
        return words(nav).partition("> ")[2]

    assert pages() == "1 ledger entry"
    for n in range(24):
        entry_at(token, timezone.now() - timedelta(minutes=n))
    assert pages() == "25 ledger entries"
    entry_at(token, timezone.now())
    assert pages() == "Older"


def customer_of(token: ApiToken) -> int:
    customer = Customer.objects.create(name="Example Ltd")
    customer.tokens.add(token)
    return customer.pk


def test_list_is_filtered_by_kind_and_days(admin_client: Client, search: CreditEntry) -> None:
    token = search.token
    entry_at(token, datetime(2026, 1, 31, 23, 59, 59, 999_999, tzinfo=UTC))
    entry_at(token, datetime(2026, 2, 1, tzinfo=UTC), kind="top-up", amount=5, reason="paid")
    assert listed_entries(admin_client, kind="search") == ["pbx search -1", "pbx search -1"]
    assert listed_entries(admin_client, kind="booked") == ["pbx issue 30", "pbx top-up 5"]
    assert listed_entries(admin_client, kind="top-up") == ["pbx top-up 5"]
    assert listed_entries(admin_client, since="2026-01-31", until="2026-01-31") == ["pbx search -1"]
    assert listed_entries(admin_client, since="2026-02-01", until="2026-02-01") == ["pbx top-up 5"]
    assert listed_entries(admin_client, until="2026-02-01", kind="search") == ["pbx search -1"]
    assert listed_entries(admin_client, since="0001-01-01", until="9999-12-31", request_id="req-1", kind="booked") == []


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"since": "31.01.2026"}, "Enter a time as YYYY-MM-DDTHH:MM."),
        ({"until": "2026-02-30"}, "Enter a time as YYYY-MM-DDTHH:MM."),
        ({"since": "2026-02-01", "until": "2026-01-31"}, "Enter a later end, or an earlier start."),
        ({"kind": "gift"}, "Select a value from the list."),
        ({"customer": "x"}, "There is no customer with this name."),
        ({"customer": str(10**30)}, "There is no customer with this name."),
    ],
)
def test_invalid_filters_show_an_error_and_no_entries(
    admin_client: Client, token: ApiToken, parameters: dict[str, str], sentence: str
) -> None:
    response = admin_client.get(LEDGER, parameters)
    assert response.status_code == 200
    assert sentence in response.text
    assert "Correct the errors above to see ledger entries." in response.text
    assert listed_entries(admin_client, **parameters) == []


def test_list_has_a_constant_number_of_queries(admin_client: Client, search: CreditEntry) -> None:
    def queries() -> int:
        return query_count(admin_client, LEDGER)

    few = queries()
    for n in range(8):
        token = tokens.issue(name=f"token {n}", initial_credits=5, actor="test").token
        awaited.charge(token=token, request_id=f"r{n}", number=NUMBER, answer={})
        credits.refund(entry=token.entries.get(kind="search"), actor="op", reason="wrong")
    assert queries() == few


def explain(sql: str) -> str:
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN {'QUERY PLAN ' if connection.vendor == 'sqlite' else ''}{sql}")
        return "\n".join(" ".join(map(str, row)) for row in cursor.fetchall())


#: The index of each filter, the most selective first.
INDEXES = {
    "request_id": "creditentry_request_created",
    "reference": "creditentry_reference_created",
    "token": "creditentry_token_created",
    "customer": "creditentry_token_created",
    "kind": "creditentry_booked_created",
}


def ledger_statements(read: Callable[[], Any]) -> list[str]:
    """The statements by which `read` selects entries, without the refunds of the entries that it has found."""
    with CaptureQueriesContext(connection) as ran:
        read()
    sqls = [query["sql"] for query in ran.captured_queries]
    return [sql for sql in sqls if 'FROM "accounts_creditentry"' in sql and 'refunds_id" IN' not in sql]


def read_page(parameters: dict[str, Any]) -> Page:
    return LedgerForm(parameters).page(CreditEntry.objects.select_related("token__customer"))


def test_page_reads_entries_only_as_its_selection(admin_client: Client, token: ApiToken) -> None:
    """And the time of the first entry, for the months that it offers."""
    first = ledger_statements(lambda: LedgerForm({}).first_row_at(CreditEntry.objects.all()))
    for parameters in ({"since": EVER}, {"since": EVER, "token": f"#{token.pk}", "kind": "booked"}):
        by_page = ledger_statements(lambda: admin_client.get(LEDGER, parameters))  # noqa: B023
        assert len(by_page) > len(first) == 1
        assert by_page == ledger_statements(lambda: read_page(parameters)) + first  # noqa: B023


def test_no_statement_scans_or_sorts_the_whole_ledger(token: ApiToken) -> None:
    few = tokens.issue(name="few", initial_credits=5, actor="test").token
    other = tokens.issue(name="other", initial_credits=5, actor="test").token
    start = timezone.now() - timedelta(days=200)
    CreditEntry.objects.bulk_create(
        (
            CreditEntry(
                token=token if n < 6_000 else other,
                amount=-1,
                balance_after=1,
                kind="top-up" if n % 10 == 0 else "search",
                request_id="" if n % 10 == 0 else "same" if n % 3 == 0 else f"{n:x}",
                reference=f"{n:x}" if n % 10 == 0 else "",
                created_at=start + timedelta(minutes=n * 14),
            )
            for n in range(20_000)
        ),
        batch_size=2_000,
    )
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    customer = customer_of(few)
    customer_of(other)
    # With more entries of each kind than a page has: PostgreSQL rightly sorts fewer.
    days = {"since": f"{start + timedelta(days=40):%Y-%m-%d}", "until": f"{start + timedelta(days=100):%Y-%m-%d}"}
    texts: list[dict[str, Any]] = [{}, {"request_id": "1f4b"}, {"request_id": "same"}, {"reference": f"{10 * 350:x}"}]
    owners: list[dict[str, Any]] = [
        *({"token": f"#{whose.pk}"} for whose in (token, other, few)),
        {"customer": customer},
        {},
    ]
    asked = [
        {**owner, "kind": kind, **text, **when}
        for owner in owners
        for kind in ("", "search", "booked", "top-up")
        for text in texts
        for when in ({"since": EVER}, days)
    ]
    for parameters in asked:
        statements = ledger_statements(lambda: read_page(parameters))  # noqa: B023
        assert statements
        used = [name for name in INDEXES if parameters.get(name, "") not in ("", "search")]
        leading = used[0] if used else ""
        index = INDEXES.get(leading, "creditentry_created")
        for sql in statements:
            plan = explain(sql)
            assert not re.search(r"Seq Scan on accounts_creditentry|SCAN accounts_creditentry(?! USING)", plan), sql
            by_id = '"accounts_creditentry"."id" IN (' in sql  # the entries of a page of a customer's
            # The other tokens have so many operators' entries that PostgreSQL rightly reads all of them.
            of_few = parameters.get("token") == f"#{few.pk}" and leading == "token" and len(used) > 1
            booked = ["creditentry_token_booked", *([] if of_few else ["creditentry_booked_created"])]
            by_id |= leading == "customer"  # or of few days
            assert by_id or any(name in plan for name in [index, *booked]), (sql, plan)
            # Some ten pages of a customer's entries may be sorted, those of a rare request id or reference, and with
            # several filters the SCANNED ones.
            is_rare = parameters.get(leading) in ("1f4b", f"{10 * 350:x}")
            is_few = leading == "customer" or is_rare or len(used) > 1 or "OFFSET" in sql
            if not is_few:
                is_sorted = re.search(r"^ *(-> *)?Sort +\(|USE TEMP B-TREE FOR ORDER BY", plan, re.MULTILINE)
                assert not is_sorted, (sql, plan)
