"""Why was I charged? The ledger's list, a row's page, the number that a customer names, and refunds."""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from accounts import audit, credits, erasure, tokens
from accounts.models import ApiToken, CreditEntry
from tests.accounts.admin_pages import LEDGER, NUMBER, at_once, balance, history

pytestmark = pytest.mark.django_db

Staff = Callable[..., Client]


@pytest.fixture
def search(token: ApiToken) -> CreditEntry:
    credits.charge(token=token, request_id="req-1", number=NUMBER, answer={})
    return token.entries.get(kind="search")


def at(row: CreditEntry, page: str) -> str:
    return f"{LEDGER}{row.pk}/{page}/"


def listed(client: Client, **parameters: Any) -> list[str]:
    """What is listed, as `token kind amount`."""
    response = client.get(LEDGER, parameters)
    assert response.status_code == 200
    return [f"{row.token.name} {row.kind} {row.amount}" for row in response.context["cl"].result_list]


def written(token: ApiToken, when: datetime, **values: Any) -> CreditEntry:
    """A row of another day."""
    search = {"amount": -1, "balance_after": 1, "kind": "search", "request_id": "r", **values}
    return CreditEntry.objects.create(token=token, created_at=when, **search)


# --- The list ----------------------------------------------------------------------------------------------------


def test_a_request_is_found_by_its_id_as_it_stands(admin_client: Client, search: CreditEntry) -> None:
    credits.charge(token=search.token, request_id="req-12", number=NUMBER, answer={})
    assert listed(admin_client, q="req-1") == ["pbx search -1"]
    assert listed(admin_client, q=" req-12 ") == ["pbx search -1"]
    assert listed(admin_client, q="eq-1") == []
    assert "No request, token or reference is like this" in admin_client.get(LEDGER, {"q": "eq-1"}).text


def test_a_tokens_rows_are_found_by_its_name_and_id(admin_client: Client, token: ApiToken) -> None:
    other = tokens.issue(name="Switchboard", initial_credits=1, actor="test").token
    for text in ("switch", f"#{other.pk}", str(other.pk)):
        assert listed(admin_client, q=text) == ["Switchboard issue 1"], text
    assert listed(admin_client, token__id__exact=other.pk) == ["Switchboard issue 1"]
    assert "Only rows of" in admin_client.get(LEDGER, {"token__id__exact": other.pk}).text
    assert listed(admin_client, q="#999999") == []


def test_a_text_that_fits_several_tokens_asks_which(admin_client: Client) -> None:
    for name in ("branch north", "branch south"):
        tokens.issue(name=name, initial_credits=7, actor="test")
    response = admin_client.get(LEDGER, {"q": "branch", "kind__exact": "issue"})
    assert listed(admin_client, q="branch") == []
    assert "2 tokens fit" in response.text
    chosen = re.findall(r'href="(\?[^"]*token__id__exact=\d+)"', response.text)
    rows = [admin_client.get(LEDGER + address.replace("&amp;", "&")).context["cl"].result_list for address in chosen]
    assert [[(row.token.name, row.kind) for row in page] for page in rows] == [
        [("branch north", "issue")],
        [("branch south", "issue")],
    ]


def test_among_too_many_tokens_only_the_newest_are_found_by_name_and_an_id_finds_every_one(
    admin_client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    oldest, *_ = [tokens.issue(name=name, initial_credits=1, actor="test").token for name in ("shop a", "b", "shop c")]
    sentence = "Names are looked for among the newest 2 tokens; #id finds every one."
    assert sentence not in admin_client.get(LEDGER, {"q": "shop"}).text
    monkeypatch.setattr("accounts.sifting.MAX_SIFTED", 2)
    assert listed(admin_client, q="shop") == ["shop c issue 1"]
    assert listed(admin_client, q="shop a") == []
    for text in ("shop a", "#shop"):
        assert sentence in admin_client.get(LEDGER, {"q": text}).text
    assert listed(admin_client, q=str(oldest.pk)) == listed(admin_client, q=f"#{oldest.pk}") == ["shop a issue 1"]
    for parameters in ({}, {"q": f"#{oldest.pk}"}, {"token__id__exact": oldest.pk}):
        assert sentence not in admin_client.get(LEDGER, parameters).text


def found(client: Client, text: str, **parameters: Any) -> list[str]:
    """What is listed, and as `?name` the tokens that are offered beside it."""
    response = client.get(LEDGER, {"q": text, **parameters})
    offered = [f"?{token.name}" for token in response.context["cl"].form.candidates]
    return [f"{row.token.name} {row.kind}" for row in response.context["cl"].result_list] + offered


def test_a_request_id_hides_no_booking_of_that_reference(admin_client: Client, token: ApiToken) -> None:
    other = tokens.issue(name="other", initial_credits=5, actor="test").token
    credits.top_up(token=token, amount=7, actor="op", reason="paid", reference="INV-17")
    credits.charge(token=other, request_id="INV-17", number=NUMBER, answer={})
    assert found(admin_client, "INV-17") == ["pbx top-up", "other search"]  # the booking first, though it is older
    exported: Any = admin_client.post(f"{LEDGER}export/?q=INV-17")
    assert exported.getvalue().decode().count("\r\n") == 3
    assert found(admin_client, "INV-17", kind__exact="booked") == ["pbx top-up"]
    assert found(admin_client, "INV-17", token__id__exact=other.pk) == ["other search"]


def test_a_request_id_hides_no_token_of_that_name(admin_client: Client, token: ApiToken) -> None:
    other = tokens.issue(name="other", initial_credits=5, actor="test").token
    assert found(admin_client, "pbx") == ["pbx issue"]
    credits.charge(token=other, request_id="pbx", number=NUMBER, answer={})
    assert found(admin_client, "pbx") == ["other search", "?pbx"]
    text = admin_client.get(LEDGER, {"q": "pbx"}).text
    assert "1 token fits &ldquo;pbx&rdquo; too:" in text
    assert f"?token__id__exact={token.pk}" in text


def test_many_searches_hide_no_search_of_another_token(
    admin_client: Client, search: CreditEntry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("accounts.ledger_forms.MAX_MATCHES", 2)
    other = tokens.issue(name="other", initial_credits=5, actor="test").token
    for _ in range(4):
        credits.charge(token=other, request_id="req-1", number=NUMBER, answer={})
    assert found(admin_client, "req-1", token__id__exact=search.token_id) == ["pbx search"]


def test_many_searches_hide_no_search_of_another_day(
    admin_client: Client, token: ApiToken, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Earlier and later ones, on other days, whichever was written first."""
    monkeypatch.setattr("accounts.ledger_forms.MAX_MATCHES", 2)
    other = tokens.issue(name="other", initial_credits=5, actor="test").token
    day = datetime(2026, 2, 1, tzinfo=UTC)
    for n in (1, 2, 3, 0, -1, -2, -3):
        written(other if n else token, day + timedelta(days=n), request_id="same")
        booked = token if n == 0 else tokens.issue(name=f"other {n}", initial_credits=5, actor="test").token
        written(booked, day + timedelta(days=n), kind="top-up", request_id="", reference="same")
    assert found(admin_client, "same", since="2026-02-01", until="2026-02-01") == ["pbx top-up", "pbx search"]


def test_a_cut_text_lists_its_newest_rows_newest_first(
    admin_client: Client, token: ApiToken, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("accounts.ledger_forms.MAX_MATCHES", 2)
    day = datetime(2026, 2, 1, tzinfo=UTC)
    for n in (2, 0, 3, 1):
        written(token, day + timedelta(days=n), request_id="same", balance_after=n)
        other = tokens.issue(name=f"other {n}", initial_credits=5, actor="test").token
        written(other, day + timedelta(days=n), kind="top-up", request_id="", reference="same", balance_after=n)
    rows = admin_client.get(LEDGER, {"q": "same"}).context["cl"].result_list
    assert [(row.kind, row.balance_after) for row in rows] == [
        ("top-up", 3),
        ("top-up", 2),
        ("search", 3),
        ("search", 2),
    ]


def test_every_text_takes_the_same_number_of_queries(admin_client: Client, search: CreditEntry) -> None:
    credits.top_up(token=search.token, amount=7, actor="op", reason="paid", reference="INV-17")
    credits.charge(token=search.token, request_id="INV-17", number=NUMBER, answer={})

    def queries(text: str) -> int:
        with CaptureQueriesContext(connection) as captured:
            assert len(admin_client.get(LEDGER, {"q": text}).context["cl"].result_list) >= 1
        return len(captured)

    assert queries("req-1") == queries("INV-17") == queries("pbx")


def test_a_reference_finds_its_booking(admin_client: Client, token: ApiToken) -> None:
    credits.top_up(token=token, amount=7, actor="op", reason="paid", reference="INV-17")
    assert listed(admin_client, q="INV-17") == ["pbx top-up 7"]


def test_kinds_and_days_narrow_the_list(admin_client: Client, search: CreditEntry) -> None:
    token = search.token
    written(token, datetime(2026, 1, 31, 23, 59, 59, 999_999, tzinfo=UTC))
    written(token, datetime(2026, 2, 1, tzinfo=UTC), kind="top-up", amount=5, reason="paid")
    assert listed(admin_client, kind__exact="search") == ["pbx search -1", "pbx search -1"]
    assert listed(admin_client, kind__exact="booked") == ["pbx issue 30", "pbx top-up 5"]
    assert listed(admin_client, kind__exact="top-up") == ["pbx top-up 5"]
    assert listed(admin_client, since="2026-01-31", until="2026-01-31") == ["pbx search -1"]
    assert listed(admin_client, since="2026-02-01", until="2026-02-01") == ["pbx top-up 5"]
    assert listed(admin_client, until="2026-02-01", kind__exact="search") == ["pbx search -1"]
    assert listed(admin_client, since="0001-01-01", until="9999-12-31", q="req-1", kind__exact="booked") == []


def test_the_newest_row_comes_first_and_the_later_of_one_moment(admin_client: Client, token: ApiToken) -> None:
    moment = timezone.now() - timedelta(days=1)
    earlier, later = (written(token, moment, request_id=name) for name in ("a", "b"))
    rows = [row.pk for row in admin_client.get(LEDGER).context["cl"].result_list]
    assert rows == [token.entries.get(kind="issue").pk, later.pk, earlier.pk]


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"since": "31.01.2026"}, "This is no day. Write it as 2026-01-31."),
        ({"until": "2026-02-30"}, "This is no day. Write it as 2026-01-31."),
        ({"since": "2026-02-01", "until": "2026-01-31"}, "The last day is before the first."),
        ({"kind__exact": "gift"}, "There is no such kind of row."),
        ({"token__id__exact": "x"}, "There is no such token."),
        ({"token__id__exact": str(10**30)}, "There is no such token."),
        ({"q": "x" * 201}, "at most 200 characters"),
        ({"q": "a\0b"}, "Null characters are not allowed"),
    ],
)
def test_what_cannot_be_looked_for_is_said_and_nothing_is_listed(
    admin_client: Client, token: ApiToken, parameters: dict[str, str], sentence: str
) -> None:
    response = admin_client.get(LEDGER, parameters)
    assert response.status_code == 200
    assert sentence in response.text
    assert "Nothing is listed until this is corrected." in response.text
    assert listed(admin_client, **parameters) == []


def test_no_other_condition_comes_in_by_the_address(admin_client: Client, token: ApiToken) -> None:
    for name in ("actor", "reason__icontains", "token__name__contains", "amount__gt", "created_at__gte"):
        assert admin_client.get(LEDGER, {name: "1"}).status_code == 400, name
    assert listed(admin_client, o="4") == listed(admin_client)


def test_the_list_takes_as_many_queries_for_many_rows_as_for_few(admin_client: Client, search: CreditEntry) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            assert admin_client.get(LEDGER).status_code == 200
        return len(captured)

    few = queries()
    for n in range(8):
        token = tokens.issue(name=f"token {n}", initial_credits=5, actor="test").token
        credits.charge(token=token, request_id=f"r{n}", number=NUMBER, answer={})
        credits.refund(entry=token.entries.get(kind="search"), actor="op", reason="wrong")
    assert queries() == few


def test_the_list_ends_somewhere_and_says_so(
    admin_client: Client, search: CreditEntry, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "Only the first" not in admin_client.get(LEDGER).text
    monkeypatch.setattr("accounts.admin.base.MAX_LISTED", 1)
    response = admin_client.get(LEDGER)
    assert "Only the first 1 are listed." in response.text
    assert response.context["cl"].result_count == 1


def test_one_request_id_with_very_many_searches_is_cut_and_said(
    admin_client: Client, search: CreditEntry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("accounts.ledger_forms.MAX_MATCHES", 1)
    assert "There are more rows with this text" not in admin_client.get(LEDGER, {"q": "req-1"}).text
    credits.charge(token=search.token, request_id="req-1", number=NUMBER, answer={})
    response = admin_client.get(LEDGER, {"q": "req-1"})
    assert "There are more rows with this text" in response.text
    assert "open the ledger from that token" in response.text
    assert [row.balance_after for row in response.context["cl"].result_list] == [28]


def plan(sql: str) -> str:
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN {'QUERY PLAN ' if connection.vendor == 'sqlite' else ''}{sql}")
        return "\n".join(" ".join(map(str, row)) for row in cursor.fetchall())


def test_no_statement_of_the_list_reads_or_sorts_the_whole_ledger(
    admin_client: Client, token: ApiToken, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("accounts.admin.base.MAX_LISTED", 100)
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
            how = plan(sql)
            assert not re.search(r"Seq Scan on accounts_creditentry|SCAN accounts_creditentry(?! USING)", how), sql
            # Rows of a rare request id, or of one token's, of what operators book, or of a token that hardly searches,
            # may be sorted.
            whose = parameters["token__id__exact"]
            rare = '("accounts_creditentry"."request_id", ' in sql and (whose or parameters["q"] != "same")
            if " IN (" not in sql and "NOT (" not in sql and whose != few.pk and not rare:
                assert not re.search(r"^ *(-> *)?Sort +\(|USE TEMP B-TREE FOR ORDER BY", how, re.MULTILINE), (sql, how)
            # The other tokens have so much of what is booked that PostgreSQL rightly reads all of it.
            if 'NOT ("accounts_creditentry"."kind"' in sql and whose == few.pk and not parameters["q"]:
                assert "creditentry_token_booked" in how, (sql, how)


# --- A row's page ------------------------------------------------------------------------------------------------


def test_the_page_says_what_a_search_cost_and_when(admin_client: Client, search: CreditEntry) -> None:
    text = admin_client.get(at(search, "change")).text
    when = f"{search.created_at:%Y-%m-%d} at {search.created_at:%H:%M:%S} UTC"
    assert f"One search by pbx (#{search.token_id}) was answered on {when} and cost 1 credit." in text
    assert "Request id: req-1. The balance after it was 29 credits." in text
    assert f'href="/admin/accounts/apitoken/{search.token_id}/change/"' in text
    assert "Not stored. A keyed hash of it is" in text


def test_a_search_and_its_refund_lead_to_each_other(admin_client: Client, search: CreditEntry) -> None:
    assert "Not refunded." in admin_client.get(at(search, "change")).text
    refund = credits.refund(entry=search, actor="op", reason="wrong name")
    assert at(refund, "change") in admin_client.get(at(search, "change")).text
    text = admin_client.get(at(refund, "change")).text
    assert at(search, "change") in text
    assert f"1 credit for one search went back to pbx (#{search.token_id}) on" in text
    assert "UTC, booked by op." in text
    assert listed(admin_client, q="req-1") == ["pbx search -1"]
    cells = re.findall(r'<td class="field-refunded [^>]*>([^<]*)<', admin_client.get(LEDGER).text)
    assert cells == ["-", "yes", "-"]


@pytest.mark.parametrize(
    ("kind", "amount", "sentence"),
    [
        ("issue", 30, "was issued by op on {} with 30 credits."),
        ("top-up", 1, "was topped up by op on {} with 1 credit."),
        ("adjustment", -5, "was adjusted by op on {} by -5 credits."),
    ],
)
def test_a_booking_is_told_in_words(
    admin_client: Client, token: ApiToken, kind: str, amount: int, sentence: str
) -> None:
    row = written(token, timezone.now(), kind=kind, amount=amount, actor="op", reason="why so", reference="INV-1")
    text = admin_client.get(at(row, "change")).text
    assert sentence.format(f"{row.created_at:%Y-%m-%d} at {row.created_at:%H:%M:%S} UTC") in text
    assert "why so" in text
    assert "INV-1" in text
    assert "Was it this number?" not in text
    assert at(row, "refund") not in text


def test_an_unknown_row_is_no_error(admin_client: Client, token: ApiToken) -> None:
    assert admin_client.get(f"{LEDGER}999/change/").status_code == 302
    for page in ("refund", "number"):
        assert admin_client.get(f"{LEDGER}999/{page}/").status_code == 404
        assert admin_client.get(f"{LEDGER}{10**30}/{page}/").status_code == 404
    assert admin_client.get(at(token.entries.get(), "number")).status_code == 404


# --- Was it this number? -----------------------------------------------------------------------------------------


def test_the_refund_button_stays_after_the_comparison(staff: Staff, search: CreditEntry) -> None:
    client = staff("view_creditentry", "refund_creditentry")
    for number in (NUMBER, "493023125043"):
        assert f'href="{at(search, "refund")}"' in client.post(at(search, "number"), {"number": number}).text
    client.post(at(search, "refund"), {"reason": "wrong name"})
    assert at(search, "refund") not in client.post(at(search, "number"), {"number": NUMBER}).text


def test_the_comparison_offers_no_refund_without_permission(staff: Staff, search: CreditEntry) -> None:
    response = staff("view_creditentry").post(at(search, "number"), {"number": NUMBER})
    assert "Yes, this search was for that number." in response.text
    assert at(search, "refund") not in response.text


@pytest.mark.parametrize(
    ("number", "answer"),
    [
        (NUMBER, "Yes, this search was for that number."),
        ("+49 (3023) 125-042", "Yes, this search was for that number."),
        ("493023125043", "No, this search was for another number."),
        ("03023125042", "A number has 7 to 15 digits and begins with its country code."),
        ("", "This field is required."),
    ],
)
def test_a_number_is_compared_and_not_kept(
    staff: Staff, search: CreditEntry, caplog: pytest.LogCaptureFixture, number: str, answer: str
) -> None:
    caplog.set_level("DEBUG")
    client = staff("view_creditentry")
    before = CreditEntry.objects.values().get(pk=search.pk)
    assert at(search, "number") in client.get(at(search, "change")).text
    with CaptureQueriesContext(connection) as ran:
        response = client.post(at(search, "number"), {"number": number})
    assert response.status_code == 200
    assert answer in response.text
    if number:
        assert number not in response.text + caplog.text + str(response.headers)
    assert [query["sql"] for query in ran if re.match("INSERT|UPDATE|DELETE", query["sql"])] == []
    assert (CreditEntry.objects.values().get(pk=search.pk), history()) == (before, [])


def test_numbers_cannot_be_tried_one_after_another(
    staff: Staff, search: CreditEntry, admin_user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, url = staff("view_creditentry"), at(search, "number")
    monkeypatch.setattr("accounts.admin.ledger.COMPARE_RATE", (2, 3600))
    other = tokens.issue(name="other", initial_credits=5, actor="test").token
    credits.charge(token=other, request_id="req-2", number=NUMBER, answer={})
    for number, row in ((NUMBER, search), ("1", other.entries.get(kind="search"))):
        assert client.post(at(row, "number"), {"number": number}).status_code == 200
    braked = client.post(url, {"number": NUMBER})
    assert braked.status_code == 429
    assert 1 <= int(braked["Retry-After"]) <= 3600
    assert "Too many numbers were compared. Try again in" in braked.text
    assert "this search was for" not in braked.text
    assert client.get(url).status_code == 200
    neighbour = Client()
    neighbour.force_login(admin_user)
    assert "Yes, this search was for that number." in neighbour.post(url, {"number": NUMBER}).text


def test_a_forgotten_number_is_said_to_be_forgotten(admin_client: Client, search: CreditEntry) -> None:
    erasure.forget([NUMBER])
    text = admin_client.get(at(search, "change")).text
    assert "Forgotten: nothing here says any more which number it was." in text
    assert "Was it this number?" not in text
    assert "Forgotten" in admin_client.post(at(search, "number"), {"number": NUMBER}).text


def test_the_number_page_needs_the_permission_to_view_and_the_csrf_token(
    staff: Staff, search: CreditEntry, admin_user: User
) -> None:
    assert staff("view_apitoken").post(at(search, "number"), {"number": NUMBER}).status_code == 403
    strict = Client(enforce_csrf_checks=True)
    strict.force_login(admin_user)
    assert strict.post(at(search, "number"), {"number": NUMBER}).status_code == 403


# --- Refunds -----------------------------------------------------------------------------------------------------

REFUND = ("view_creditentry", "refund_creditentry")


def test_a_refund_is_one_new_row_with_who_and_why(staff: Staff, search: CreditEntry) -> None:
    client = staff(*REFUND)
    assert at(search, "refund") in client.get(at(search, "change")).text
    assert "One search by" in client.get(at(search, "refund")).text
    response = client.post(at(search, "refund"), {"reason": " wrong name "})
    refund = CreditEntry.objects.get(kind="refund")
    assert response.status_code == 302
    assert response["Location"] == at(refund, "change")
    assert (refund.amount, refund.actor, refund.reason, refund.refunds_id) == (1, "support", "wrong name", search.pk)
    assert history() == [("support", f"Refunded by ledger row {refund.pk}. wrong name")]
    assert "Refunded: +1 credit, balance 30." in client.get(at(refund, "change")).text
    assert (balance(search.token), audit.audit()) == (30, [])


def test_a_form_that_is_sent_twice_is_one_refund_and_both_lead_to_it(
    staff: Staff, search: CreditEntry, settings: Any
) -> None:
    settings.SUPPORT_CREDITS_PER_DAY = 1  # which the first one uses up
    client = staff(*REFUND)
    first, second = (client.post(at(search, "refund"), {"reason": "wrong name "}) for _ in range(2))
    refund = CreditEntry.objects.get(kind="refund")
    assert first["Location"] == second["Location"] == at(refund, "change")
    assert (balance(search.token), len(history())) == (30, 1)


def test_a_second_refund_says_that_it_was_refunded_before(staff: Staff, search: CreditEntry) -> None:
    client = staff(*REFUND)
    client.post(at(search, "refund"), {"reason": "wrong name"})
    again = client.post(at(search, "refund"), {"reason": "no name"})
    assert "This search was refunded before." in again.text
    assert client.get(at(search, "refund"))["Location"] == at(search, "change")
    assert at(search, "refund") not in client.get(at(search, "change")).text
    assert (balance(search.token), len(history())) == (30, 1)


def test_only_a_search_is_refunded(staff: Staff, token: ApiToken) -> None:
    client, row = staff(*REFUND), token.entries.get(kind="issue")
    assert client.get(at(row, "refund"))["Location"] == at(row, "change")
    assert "Only a search is refunded" in client.post(at(row, "refund"), {"reason": "x"}).text
    assert (balance(token), history()) == (30, [])


@pytest.mark.parametrize("reason", ["", "   ", "x" * 201])
def test_a_refund_needs_a_reason(staff: Staff, search: CreditEntry, reason: str) -> None:
    assert staff(*REFUND).post(at(search, "refund"), {"reason": reason}).status_code == 200
    assert (balance(search.token), history()) == (29, [])


def test_refunds_count_towards_what_a_supporter_may_give(staff: Staff, search: CreditEntry, settings: Any) -> None:
    settings.SUPPORT_CREDITS_PER_DAY = 1
    credits.charge(token=search.token, request_id="req-2", number=NUMBER, answer={})
    second = CreditEntry.objects.get(request_id="req-2")
    client = staff(*REFUND)
    assert client.post(at(search, "refund"), {"reason": "wrong"}).status_code == 302
    refused = client.post(at(second, "refund"), {"reason": "wrong"})
    assert "You may give 1 credits in 24 hours, and 0 of them are left." in refused.text
    assert (balance(search.token), len(history())) == (29, 1)


def test_a_refund_needs_its_permission(staff: Staff, search: CreditEntry) -> None:
    client = staff("view_creditentry", "change_creditentry", "top_up_apitoken")
    assert at(search, "refund") not in client.get(at(search, "change")).text
    assert client.get(at(search, "refund")).status_code == 403
    assert client.post(at(search, "refund"), {"reason": "x"}).status_code == 403
    assert (balance(search.token), history()) == (29, [])


@pytest.mark.django_db(transaction=True)
def test_a_refund_posted_several_times_at_once_is_one_refund(admin_user: User, search: CreditEntry) -> None:
    answers = at_once(admin_user, at(search, "refund"), {"reason": "wrong name"})
    assert {answer["Location"] for answer in answers} == {at(CreditEntry.objects.get(kind="refund"), "change")}
    assert (balance(search.token), len(history())) == (30, 1)
    assert audit.audit() == []
